"""What all tests share: compiled modules, and the profiles of Hypothesis."""

import os
import sys

from hypothesis import settings

# Tests start hundreds of Python processes, and each would compile the package anew where writing files is forbidden.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)  # chance is for torture/
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("quick")
