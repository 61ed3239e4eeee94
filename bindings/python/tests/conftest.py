"""What several tests need: the backends that must be there, and OpenCL queues."""

import os

# Tests ask what the device computes; those of who answers first say so themselves.
os.environ.setdefault("ANYDNN_STARTUP", "device")

import anydnn
import pytest

# As in the tests in Rust: what is required fails where it is missing.
REQUIRED = [name for name in os.environ.get("ANYDNN_REQUIRE", "host").split(",") if name != "mock"]


@pytest.fixture(params=REQUIRED)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pytest_report_header() -> str:
    return f"anydnn {anydnn.__version__} on {', '.join(REQUIRED)}"
