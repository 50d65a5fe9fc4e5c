"""Who is in a group of Connect workers: while somebody is, its connectors may copy."""

from __future__ import annotations

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from heliostat.access import Reachable
from heliostat.clusters.admin.caller import Caller, error_of

CONNECT_TIMEOUT_S = 30.0
_GROUP = 0


class ConnectGroup:
    """Members of one group, asked as often as wanted; close it when done.

    Raises
    ------
    ConnectionLost
        From every method: no broker could be reached, or none answered in time.
    """

    def __init__(self, cluster: Reachable, group: str) -> None:
        self.group = group
        self._caller = Caller(cluster, "heliostat-admin", connect_timeout_s=CONNECT_TIMEOUT_S)

    def close(self) -> None:
        """Close the connections."""
        self._caller.close()

    def members(self) -> tuple[str, ...]:
        """Hosts and client ids of those that are in it; none where the group is not known.

        Raises
        ------
        BrokerError
            The coordinator refuses, or can't tell at the moment.
        """
        found = self._caller.send(
            FindCoordinatorRequest(key=self.group, key_type=_GROUP, max_version=3)
        )
        error = error_of(found.error_code, f"find the coordinator of group {self.group}")
        if error is not None:
            raise error
        request = DescribeGroupsRequest(
            groups=[self.group], include_authorized_operations=False, max_version=5
        )
        (row,) = self._caller.send(request, found.node_id).groups
        error = error_of(row.error_code, f"describe group {self.group}")
        if error is not None:
            raise error
        return tuple(f"{each.client_id} at {each.client_host}" for each in row.members)
