"""Attempts: one try to deliver one digest, from its lease to its end.

`pipeline.py` has all steps, in their order; the modules beside it do the work of one step each, or hold a value.
"""
