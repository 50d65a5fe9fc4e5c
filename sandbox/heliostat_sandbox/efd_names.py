"""Names, sizes and rates of the Engineering and Facility Database (EFD) of the Rubin Observatory.

Sources: the interface definitions of its control system (components and their busiest topics), and
what its brokers stored in three days of 2023 (technote SQR-085): bytes per second and topic. Sizes
are those bytes divided by the rate of the component's loop, less a one-record batch's overhead.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BATCH_OVERHEAD_BYTES = 75
"""Header (61) and record fields of a one-record batch with an empty key."""

COMPONENTS = (
    *("MTM1M3", "MTMount", "MTM2", "ESS", "MTVMS", "MTM1M3TS", "Scheduler", "MTPtg", "ATPtg"),
    *("GIS", "ATMCS", "MTHexapod", "MTRotator", "MTDome", "MTAOS", "MTCamera", "CCCamera"),
    *("ATCamera", "HVAC", "ScriptQueue", "Script", "Watcher", "ATDome", "ATAOS", "ATHexapod"),
    *("ATPneumatics", "ATSpectrograph", "ATMonochromator", "ATWhiteLight", "ATBuilding"),
    *("ATDomeTrajectory", "MTDomeTrajectory", "ATHeaderService", "MTHeaderService"),
    *("CCHeaderService", "GCHeaderService", "ATOODS", "MTOODS", "CCOODS", "OCPS", "EAS", "EPM"),
    *("DIMM", "DSM", "DREAM", "LOVE", "CBP", "PMD", "Electrometer", "FiberSpectrograph"),
    *("GenericCamera", "Guider", "LaserTracker", "LEDProjector", "LinearStage", "MTEEC"),
    *("MTAirCompressor", "MTReflector", "TunableLaser", "WeatherForecast", "WeatherStation"),
    *("SummitFacility", "Authorize"),
)
"""Components, the busiest first: a smaller catalogue takes the first ones."""

INDEXED = frozenset(
    {"ESS", "MTHexapod", "Script", "ScriptQueue", "Scheduler", "Electrometer", "GenericCamera"}
    | {"FiberSpectrograph", "LEDProjector", "LinearStage", "MTAirCompressor", "CBP", "OCPS", "PMD"}
)
"""Components with several instances; their records have a `salIndex`."""
INDICES_MAX = 4

MULTI_PARTITION = frozenset({"MTM1M3", "MTM2", "MTHexapod", "MTMount", "MTVMS"})
"""Components whose telemetry has several partitions; all other topics have one."""

_M1M3_HZ, _MOUNT_HZ, _M2_HZ = 50.0, 20.0, 18.0

Busy = tuple[float, float]
"""Bytes per second on a broker's disk, records per second."""

BUSY_TELEMETRY: Mapping[str, Mapping[str, Busy]] = MappingProxyType(
    {
        "MTM1M3": {
            "forceActuatorData": (271_700, _M1M3_HZ),
            "appliedBalanceForces": (196_000, _M1M3_HZ),
            "appliedElevationForces": (190_000, _M1M3_HZ),
            "appliedAzimuthForces": (185_000, _M1M3_HZ),
            "appliedThermalForces": (180_000, _M1M3_HZ),
            "appliedForces": (84_000, _M1M3_HZ),
            "appliedCylinderForces": (70_300, _M1M3_HZ),
            "pidData": (45_000, _M1M3_HZ),
            "hardpointMonitorData": (34_900, _M1M3_HZ),
            "hardpointActuatorData": (29_800, _M1M3_HZ),
            "imsData": (18_000, _M1M3_HZ),
            "accelerometerData": (16_000, _M1M3_HZ),
            "powerSupplyData": (15_000, _M1M3_HZ),
            "outerLoopData": (14_000, _M1M3_HZ),
            "inclinometerData": (12_000, _M1M3_HZ),
            "gyroData": (11_000, _M1M3_HZ),
        },
        "MTMount": {
            "encoder": (13_800, _MOUNT_HZ),
            "azimuthDrives": (12_500, _MOUNT_HZ),
            "elevationDrives": (11_900, _MOUNT_HZ),
            "azimuth": (9_400, _MOUNT_HZ),
            "elevation": (9_400, _MOUNT_HZ),
            "cameraCableWrap": (7_800, _MOUNT_HZ),
            "balancing": (6_900, _MOUNT_HZ),
            "mirrorCoverLocks": (6_400, _MOUNT_HZ),
            "mirrorCover": (6_100, _MOUNT_HZ),
            "deployablePlatforms": (5_500, _MOUNT_HZ),
            "lockingPins": (5_000, _MOUNT_HZ),
            "safetySystem": (4_600, _MOUNT_HZ),
            "oilSupplySystem": (4_200, _MOUNT_HZ),
            "azimuthCableWrap": (3_800, _MOUNT_HZ),
            "mainCabinet": (3_600, _MOUNT_HZ),
            "topEndChiller": (3_400, _MOUNT_HZ),
            "mainPowerSupply": (3_100, _MOUNT_HZ),
            "compressedAir": (2_600, _MOUNT_HZ),
            "cooling": (1_900, 5.0),
            "azimuthDrivesThermal": (1_800, 5.0),
            "elevationDrivesThermal": (1_600, 5.0),
            "dynaleneSystem": (1_500, 5.0),
            "generalPurposeGlycolWater": (1_400, 5.0),
            "auxiliaryCabinetsThermal": (1_300, 5.0),
            "mainCabinetThermal": (1_250, 5.0),
            "cabinet0101Thermal": (1_200, 5.0),
            "motionControlThermal": (1_200, 5.0),
        },
        "MTM2": {
            "axialForce": (5_500, 1.5),
            "tangentForce": (4_400, _M2_HZ),
            "axialActuatorSteps": (3_200, _M2_HZ),
            "axialEncoderPositions": (3_000, _M2_HZ),
            "position": (2_600, _M2_HZ),
            "positionIMS": (2_500, _M2_HZ),
            "displacementSensors": (2_300, _M2_HZ),
            "ilcData": (2_200, _M2_HZ),
            "netForcesTotal": (2_000, _M2_HZ),
            "netMomentsTotal": (1_900, _M2_HZ),
            "zenithAngle": (1_800, _M2_HZ),
        },
        "ESS": {
            "accelerometer": (11_500, 2.0),
            "spectrumAnalyzer": (7_100, 2.0),
            "accelerometerPSD": (5_000, 2.0),
            "temperature": (2_400, 8.0),
            "airTurbulence": (2_100, 4.0),
            "relativeHumidity": (900, 4.0),
        },
        "MTVMS": {"data": (12_400, 9.0), "psd": (11_200, 2.0)},
        "MTM1M3TS": {"thermalData": (14_100, 5.0), "glycolLoopTemperature": (6_000, 5.0)},
        "Scheduler": {"observatoryState": (3_600, 10.0)},
        "MTPtg": {"mountPositions": (3_900, 12.0), "timeAndDate": (2_900, 12.0)},
        "ATPtg": {"mountPositions": (3_700, 12.0), "timeAndDate": (2_700, 12.0)},
        "ATMCS": {"mount_AzEl_Encoders": (240, 0.05), "torqueDemand": (220, 0.05)},
    }
)

BUSY_EVENTS: Mapping[str, Mapping[str, Busy]] = MappingProxyType(
    {
        "GIS": {"systemStatus": (5_700, 38.0), "interlockStatus": (5_300, 38.0)},
        "MTM1M3": {"forceActuatorWarning": (900, 0.2)},
    }
)
"""Without the fault that once made `forceActuatorWarning` write 87 kB/s."""

GENERIC_EVENTS = (
    *("heartbeat", "summaryState", "logLevel", "logMessage", "errorCode", "simulationMode"),
    *("softwareVersions", "configurationApplied", "configurationsAvailable", "statusCode"),
    "largeFileObjectAvailable",
)
HEARTBEAT = (174.0, 1.0)
GENERIC_COMMANDS = (
    *("start", "enable", "disable", "standby", "exitControl", "setLogLevel", "abort"),
    *("enterControl", "setValue", "stop"),
)

THINGS = (
    *("actuator", "amplifier", "axis", "battery", "blower", "brake", "cabinet", "calibration"),
    *("chiller", "compressor", "controller", "cryostat", "detector", "dome", "door", "drive"),
    *("encoder", "exposure", "fan", "filter", "focalPlane", "gate", "grating", "image", "lamp"),
    *("laser", "louvers", "mirror", "motor", "network", "offset", "oil", "optics", "power"),
    *("pressure", "pump", "rack", "rotator", "sensor", "shutter", "stage", "target", "thermal"),
    *("track", "vacuum", "valve", "vent", "weather"),
)
ASPECTS = (
    *("Status", "Position", "Temperature", "State", "Settings", "Limits", "Flow", "Current"),
    *("Voltage", "Speed", "Warning", "Info", "Data", "Demand", "InPosition", "Enabled"),
    *("Configuration", "Connected", "Error", "Timing"),
)
DEEDS = (
    *("move", "set", "stop", "open", "close", "reset", "home", "park", "enable", "disable"),
    *("start", "configure", "track", "clear", "load", "unload", "lock", "unlock", "test"),
)

SIZE_QUANTILES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)
SIZES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        # Payload bytes at these quantiles over all topics of a kind.
        "telemetry": (60, 70, 150, 608, 9_800, 30_800),
        "event": (58, 62, 98, 219, 4_600, 116_600),
        "command": (57, 59, 66, 101, 273, 24_000),
        "ackcmd": (106, 110, 130, 155, 160, 162),
    }
)
