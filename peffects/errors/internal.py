"""Our own mistakes: PE9xx.

The page of each, which `python -m peffects explain CODE` prints, is in `docs/errors`.
"""

from __future__ import annotations

from peffects.errors.base import PeffectsError


class InternalError(PeffectsError):
    """A bug of peffects, not of your program.

    Please report it with the text of the message; it names the pass that went wrong.
    """

    code = "PE901"


class MissingRuleError(PeffectsError):
    """A transformation has no rule for a primitive: a bug of peffects.  Please report it."""

    code = "PE902"
