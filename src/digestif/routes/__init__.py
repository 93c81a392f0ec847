"""Routes: timelines of a pattern are grouped, rendered and sent through a channel, without a handler of one's own."""

from digestif.routes.budget import Budget
from digestif.routes.route import Route

__all__ = ["Budget", "Route"]
