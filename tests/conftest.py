"""What all tests share: the profiles of Hypothesis."""

from hypothesis import settings

settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("quick")
