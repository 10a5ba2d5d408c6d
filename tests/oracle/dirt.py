"""Dice that throw what real files hold. Seeded: the same seed gives the same file."""

import csv
import io
from random import Random


class Dice(Random):
    """Values as shippers write them."""

    def now_and_then(self, share, odd, usual):
        """`odd` once in `share` throws, else `usual`; either may be a function, or several values to choose from."""
        found = odd if self.randrange(share) == 0 else usual
        found = found() if callable(found) else found
        return self.choice(found) if isinstance(found, tuple) else found

    def digits(self, value, group, point, places):
        """A number with so many places, grouped every other time."""
        whole, _, part = f"{value:.{places}f}".partition(".")
        if self.random() < 0.5 and len(whole) > 3:
            whole = f"{int(whole):,}".replace(",", group)
        return f"{whole}{point}{part}" if part else whole

    def around(self, value):
        """The value with blanks around it that nobody sees."""
        return (
            self.choice(("", "", "", "", "", "", " ", "\N{NO-BREAK SPACE}"))
            + value
            + self.choice(("", "", "", "", " ", "\N{NO-BREAK SPACE}", "  "))
        )

    def alike(self, code):
        """A code that looks like another one."""
        return self.choice(
            (code.replace("0", "O", 1), code.replace("1", "l", 1), f"{code}.", code.replace("-", "\N{EN DASH}"))
        )


def delimited(rows, delimiter, end="\r\n", encoding="utf-8", quote='"'):
    """Rows as a text file."""
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=end, quotechar=quote).writerows(rows)
    return out.getvalue().encode(encoding)
