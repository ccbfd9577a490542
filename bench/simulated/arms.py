"""An arm of a study: how the gradients of the workers are quantised."""

from dataclasses import dataclass

SUPER_GROUP = 256
TINY = 1e-30  # for divisors; GPUs flush subnormal numbers to 0
GROUP = 16
SCALE_BITS = {"dither": (16 + 16 * 4) / SUPER_GROUP, "eden": 16 / SUPER_GROUP}
# dither: mean and energy as waterfill sends them; eden subtracts no mean.
STATISTICS_BITS = {"dither": 32 / SUPER_GROUP, "eden": 16 / SUPER_GROUP}
FEEDBACK = ("none", "plain", "average")
UNITS = (0, 1, GROUP, SUPER_GROUP)


@dataclass(frozen=True)
class Arm:
    """Parsed from QUANTISER:BITS[+option=value]...; `dense` quantises nothing.

    bits      total bits per element, all metadata included
    widths    even: the same for all super-groups. energy: by the energy of each super-group
    alpha     with widths=energy, how much the energy of a parameter itself counts
    felt      with widths=energy, super-groups are weighted by their mean 1/v
    units     values are divided by sqrt(v) first, with one v per this many elements; 0: plain values
    beta      v is the running mean of the reduced gradient's square with this factor
    pow2      the factors 1/sqrt(v) are rounded to powers of two
    feedback  none; plain: the error of a worker is added to its next gradient; average: a running mean of it is
    """

    quantiser: str
    bits: float = 32
    widths: str = "even"
    alpha: float = 0.0
    felt: bool = False
    units: int = 0
    beta: float = 0.95
    pow2: bool = False
    feedback: str = "none"

    @property
    def is_dense(self) -> bool:
        return self.quantiser == "dense"

    @property
    def code_bits(self) -> float:
        """Bits per element that are left for codes."""
        overhead = SCALE_BITS[self.quantiser]
        if self.widths == "energy":
            overhead += STATISTICS_BITS[self.quantiser]
        return self.bits - overhead

    @property
    def lowest_width(self) -> int:
        if self.widths == "even":
            return int(self.code_bits)
        return 2 if self.quantiser == "dither" and self.code_bits >= 2 else 1


def parse_arm(text: str) -> Arm:
    """Raises ValueError if the text is not an arm."""
    head, *options = text.split("+")
    quantiser, _, bits = head.partition(":")
    if quantiser == "dense":
        if bits or options:
            raise ValueError(f"arm '{text}': dense has no options")
        return Arm("dense")
    if quantiser not in SCALE_BITS:
        raise ValueError(f"arm '{text}': quantiser '{quantiser}' is unknown; known are {', '.join(SCALE_BITS)}, dense")
    kinds = {"widths": str, "alpha": float, "units": int, "beta": float, "feedback": str}
    values: dict[str, object] = {}
    for option in options:
        name, _, value = option.partition("=")
        if name in ("felt", "pow2") and not value:
            values[name] = True
        elif name in kinds:
            values[name] = kinds[name](value)
        else:
            raise ValueError(f"arm '{text}': option '{option}' is unknown")
    arm = Arm(quantiser, float(bits), **values)
    if arm.widths not in ("even", "energy") or arm.feedback not in FEEDBACK or arm.units not in UNITS:
        raise ValueError(f"arm '{text}': widths are even or energy, feedback is one of {', '.join(FEEDBACK)}, "
                         f"units one of {', '.join(map(str, UNITS))}")
    if arm.code_bits < 1 or arm.code_bits > 7:
        raise ValueError(f"arm '{text}': {arm.code_bits:.4g} bits are left for a code; 1 to 7 are possible")
    return arm
