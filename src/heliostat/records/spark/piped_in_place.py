"""Pipelines that are done on batches' bytes, for lanes that have one."""

from __future__ import annotations

from dataclasses import replace

from heliostat.records.copier.lane import LaneSpec
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.rows.field_cuts import FieldCuts
from heliostat.records.rows.in_place import InPlace
from heliostat.records.transport.piped_answers import InPlaceExchange


def exchange_of(lane: LaneSpec, pipeline: Pipeline) -> InPlaceExchange:
    """Return what a lane's answers go through."""
    return InPlaceExchange(lane.partitions, pipeline.name, in_place(pipeline))


def in_place(pipeline: Pipeline) -> InPlace:
    """Return what does a pipeline's steps on batches' bytes."""
    cuts = FieldCuts(None, None)
    if pipeline.avro_steps:
        from heliostat.records.avro.cuts import cuts_of  # only here: most need no Avro

        cuts = cuts_of(pipeline.avro_steps)
    json = pipeline.json_cuts
    keys, values = json.get("key", cuts.keys), json.get("value", cuts.values)
    return InPlace(pipeline.header_steps, replace(cuts, keys=keys, values=values))
