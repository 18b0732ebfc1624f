"""Options of jobs that are given in odd ways."""

from __future__ import annotations

import pytest


def test_a_decorator_keeps_what_an_iterator_or_a_list_gave_when_it_was_made(scheduler, clock):
    args, kwargs, seen = [1], {"b": 2}, []
    decorator = scheduler.every("1s", id="job", tags=iter(["x", "y"]), args=args, kwargs=kwargs)
    args.append(3)
    kwargs["c"] = 4
    decorator(lambda a, b: seen.append((a, b)))
    assert scheduler.get_job("job").tags == {"x", "y"}
    clock.advance(1)
    assert seen == [(1, 2)]


@pytest.mark.parametrize("options", [{"args": 5}, {"kwargs": 5}, {"kwargs": [("a", 1)]}, {"tags": 5}, {"tags": [[]]}])
def test_what_cannot_be_taken_is_refused_by_name(scheduler, options):
    [name] = options
    for register in (lambda: scheduler.every("1s", print, **options), lambda: scheduler.every("1s", **options)):
        with pytest.raises(TypeError, match=f"^{name} must be"):
            register()
    assert len(scheduler) == 0
