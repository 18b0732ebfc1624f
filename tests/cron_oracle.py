"""What a cron expression means, slowly and obviously: a walk over instants, each converted by the tzinfo itself.

It shares nothing with the package: it reads the text of the fields, and knows nothing of masks or offsets.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timedelta, timezone

MONTHS = ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun"]
NO_NAMES: list[str] = []


def number(text, names):
    return names.index(text.lower()) if text.lower() in names else int(text)


def values(field, low, high, names=NO_NAMES):
    """All values that the text of a field, without `L` and `#`, matches."""
    found = set()
    for item in field.split(","):
        part, _, step = item.partition("/")
        first, _, last = part.partition("-")
        if part == "*":
            first, last = str(low), str(high)
        elif step and not last:
            last = str(high)
        found |= set(range(number(first, names), number(last or first, names) + 1, int(step or 1)))
    return found


class Oracle:
    def __init__(self, expression, *, seconds=False):
        fields = expression.split()
        if not seconds:
            fields = ["0", *fields]
        second, minute, hour, self.day, month, self.weekday = fields
        self.seconds, self.minutes, self.hours = values(second, 0, 59), values(minute, 0, 59), values(hour, 0, 23)
        self.months = values(month, 1, 12, MONTHS)
        self.either = not (self.day.startswith("*") or self.weekday.startswith("*"))
        self.wildcard = any(field.startswith("*") for field in (second, minute, hour))
        self.step = timedelta(seconds=1 if seconds else 60)
        self.days = {}

    def day_matches(self, date):
        of_month = date.day == monthrange(date.year, date.month)[1] and "L" in self.day.split(",")
        plain = [item for item in self.day.split(",") if item != "L"]
        of_month = of_month or (bool(plain) and date.day in values(",".join(plain), 1, 31))
        if "#" in self.weekday:
            nth = [item.split("#") for item in self.weekday.split(",")]
            of_week = any(
                number(name, WEEKDAYS) % 7 == date.isoweekday() % 7 and int(n) == (date.day + 6) // 7 for name, n in nth
            )
        else:
            of_week = date.isoweekday() % 7 in {day % 7 for day in values(self.weekday, 0, 7, WEEKDAYS)}
        return date.month in self.months and (of_month or of_week if self.either else of_month and of_week)

    def matches(self, local):
        if local.second not in self.seconds or local.minute not in self.minutes or local.hour not in self.hours:
            return False
        date = local.date()
        if date not in self.days:
            self.days[date] = self.day_matches(date)
        return self.days[date]

    def slots(self, zone, after, until, warm_up):
        """The slots in (after, until] of a zone whose offset is whole minutes.

        `warm_up` is how long before `after` the walk begins: longer than any span that may be repeated there.
        """
        epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)

        def local_time(instant):
            return (epoch + timedelta(seconds=instant)).astimezone(zone).replace(tzinfo=None)

        step = self.step // timedelta(seconds=1)
        begin = after - after % step - warm_up
        reached = local_time(begin)
        found = []
        for instant in range(begin + step, until + 1, step):
            local = local_time(instant)
            due = self.wildcard and self.matches(local)
            while reached < local:  # one step, or all that the clock on the wall has passed over
                reached += self.step
                due = due or (not self.wildcard and self.matches(reached))
            if due and instant > after:
                found.append(instant)
        return found
