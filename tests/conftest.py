"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# A shared machine is slow now and then; no test may fail by the clock.
settings.register_profile("logquake", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("logquake")
