"""Pages as a browser shows them; skipped where there is none."""

import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from asyncfl.api import simulate
from asyncfl.extras.view import Window, page
from asyncfl.protocol.tasks import FATES, Tasks
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario

Opened = Callable[..., Any]


def colours_in(picture: bytes) -> int:
    """Number of different colours in a picture."""
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        return len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0))


def numbers_beside(tab: Any, fieldset: str) -> dict[str, int]:
    """What the boxes of fates or marks count."""
    labels = tab.locator(f"#{fieldset} label").all_inner_texts()
    return {name: int(number) for name, number in (label.strip().rsplit(" ", 1) for label in labels)}


@pytest.mark.parametrize(("width", "theme"), [(800, "dark"), (1280, "light")])
def test_a_page_is_drawn_in_either_theme(opened: Opened, busy: Run, theme: str, width: int) -> None:
    tab = opened(page(busy, "run"), width, theme)
    assert tab.locator("html").get_attribute("data-theme") == theme
    for drawn in ("axis", "lanes", "curves"):
        assert colours_in(tab.locator(f"#{drawn}").screenshot()) > 10
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[theme]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_tasks_and_marks_are_those_of_the_run(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run"))
    for seed in (0, 1):
        tab.select_option("#seed", str(seed))
        events = busy.events[busy.events["seed"] == seed]
        fates = Counter(spoken(FATES[fate]) for fate in Tasks.of(busy.tables["tasks"]).select(seed=seed).fate)
        assert numbers_beside(tab, "fates") == dict(fates)
        marks = numbers_beside(tab, "marks")
        assert marks == {kind: (events["kind"] == kind.replace(" ", "_")).sum() for kind in marks}
        assert {"overheard", "retransmitted", "discarded"} <= set(marks)
        said = tab.locator("#counts").inner_text()
        assert said == f"{sum(fates.values())} tasks and {sum(marks.values())} marks of 6 clients shown"


def spoken(name: str) -> str:
    return name.replace("_", " ")


def test_filters_leave_out_what_they_name(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run"))
    tasks = Tasks.of(busy.tables["tasks"]).select(seed=0)
    tab.uncheck('#fates [data-name="aggregated"]')
    left = int((tasks.fate != FATES.index("aggregated")).sum())
    assert tab.locator("#counts").inner_text().startswith(f"{left} tasks ")
    tab.check('#fates [data-name="aggregated"]')
    tab.fill("#clients", "1, 3-4")
    assert tab.locator("#counts").inner_text().startswith(f"{int(np.isin(tasks.client, [1, 3, 4]).sum())} tasks ")
    tab.fill("#clients", "1, x")
    assert tab.locator("#clients").get_attribute("aria-invalid") == "true"
    tab.fill("#clients", "")
    attackers = busy.clients.query("seed == 0 and attacker")["client"]
    tab.select_option("#attackers", "only")
    assert tab.locator("#counts").inner_text().startswith(f"{int(np.isin(tasks.client, attackers).sum())} tasks ")
    tab.select_option("#attackers", "without")
    assert tab.locator("#counts").inner_text().endswith(f" of {6 - len(attackers)} clients shown")


def test_a_click_follows_a_task_and_lists_its_events(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run"))
    before = tab.locator("#lanes").screenshot()
    tab.locator("#scroll").focus()
    tab.keyboard.press("ArrowRight")
    first = tab.evaluate("document.getElementById('tip').getBoundingClientRect().left")
    box = tab.locator("#scroll").bounding_box()
    tab.mouse.click(first - 10, box["y"] + 8)
    number = int(re.findall(r"task (\d+) of client 0", tab.locator("#details h2").first.inner_text())[0])
    events = busy.events.query(f"seed == 0 and task == {number}")
    listed = [text.split("\n")[0] for text in tab.locator("#details tbody td:first-child").all_inner_texts()]
    assert Counter(listed) >= Counter(spoken(kind) for kind in events["kind"])
    assert colours_in(before) != colours_in(tab.locator("#lanes").screenshot())
    tab.get_by_role("button", name="let go").click()
    assert tab.locator("#details").inner_text() == ""


def test_the_page_can_be_used_by_keyboard(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run"))
    tab.locator("#scroll").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    said = tab.locator("#live").inner_text()
    assert re.match(r"task \d+ of client 1, ", said)
    assert tab.locator("#tip").is_visible()
    tab.keyboard.press("Enter")
    assert tab.locator("#details h2").first.inner_text() == said.split(";")[0]
    for key in ("+", "]", "-", "[", "0", "End", "Home"):
        tab.keyboard.press(key)
    tab.keyboard.press("Escape")
    assert tab.locator("#details").inner_text() == ""
    tab.keyboard.press("m")
    assert tab.locator("html").get_attribute("data-theme") == "dark"
    tab.keyboard.press("?")
    assert tab.locator("#help").is_visible()


def test_tables_are_sorted_by_a_click_and_back_by_another(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run"))
    tab.get_by_role("tab", name="rounds").click()
    place = tab.locator("#table th button").all_inner_texts().index("test_loss")
    head = tab.locator("#table th").nth(place)

    def column() -> list[float]:
        cells = tab.locator(f"#table tbody td:nth-child({place + 1})").all_inner_texts()
        return [float(cell) for cell in cells]

    head.get_by_role("button").click()
    assert column() == sorted(column())
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert column() == sorted(column(), reverse=True)
    assert len(column()) == len(busy.rounds)
    tab.get_by_role("tab", name="ledger").click()
    assert tab.locator("#table .said").first.inner_text() == busy.summary["privacy"][0]


def test_the_selection_survives_a_reload(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run"))
    tab.select_option("#seed", "1")
    tab.uncheck('#marks [data-name="overheard"]')
    tab.get_by_role("tab", name="clients").click()
    tab.get_by_role("button", name="train_loss").click()
    said = tab.locator("#counts").inner_text()
    tab.wait_for_function("location.hash.includes('overheard')")
    tab.reload()
    tab.wait_for_selector("html[data-ready=yes]")
    assert tab.locator("#counts").inner_text() == said
    assert tab.locator("#tab-clients").get_attribute("aria-selected") == "true"
    assert tab.locator('#table th[aria-sort="ascending"]').inner_text() == "train_loss ▴"


def test_two_runs_over_each_other(opened: Opened, busy: Run, other: Run) -> None:
    tab = opened(page(busy, "first", other=(other, "second")))
    assert "world.dropout" in tab.locator("#compared").inner_text()
    tasks = sum(len(Tasks.of(run.tables["tasks"]).select(seed=0)) for run in (busy, other))
    assert tab.locator("#counts").inner_text().startswith(f"{tasks} tasks ")
    tab.locator("#scroll").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        tab.keyboard.press(key)
    assert "second run" in tab.locator("#details h2").first.inner_text()


def test_two_runs_may_have_other_numbers_of_clients(opened: Opened, busy: Run, scenario: Scenario) -> None:
    few = simulate(scenario.override({"data.clients": 3, "protocol.rounds": 2}))
    tasks = len(Tasks.of(few.tables["tasks"])), len(Tasks.of(busy.tables["tasks"]).select(seed=0))
    for one, other in ((few, busy), (busy, few)):
        tab = opened(page(one, "first", other=(other, "second")))
        assert tab.locator("#counts").inner_text().startswith(f"{sum(tasks)} tasks ")
        assert tab.locator("#counts").inner_text().endswith(" of 6 clients shown")


def test_names_from_outside_are_shown_as_they_are(opened: Opened, busy: Run) -> None:
    bad = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    tab = opened(page(replace(busy, summary=busy.summary | {"notes": [bad], "privacy": [bad]}), bad))
    assert bad in tab.locator("h1").inner_text()
    tab.locator("#said summary").click()
    assert tab.locator("#said li").inner_text() == bad
    tab.get_by_role("tab", name="ledger").click()
    assert tab.locator("#table .said").first.inner_text() == bad
    assert bad in tab.title()


def test_time_is_zoomed_and_moved_by_mouse(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run"))
    first = window_of(tab)
    box = tab.locator("#scroll").bounding_box()
    tab.mouse.move(box["x"] + 600, box["y"] + 20)
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, -100)
    tab.keyboard.up("Control")
    near = window_of(tab)
    assert near[1] - near[0] == pytest.approx(0.8 * (first[1] - first[0]))
    tab.mouse.down()
    tab.mouse.move(box["x"] + 500, box["y"] + 20, steps=4)
    tab.mouse.up()
    moved = window_of(tab)
    assert moved[0] > near[0]
    assert moved[1] - moved[0] == pytest.approx(near[1] - near[0])
    assert tab.locator("#details").inner_text() == ""
    tab.get_by_role("button", name="Show the whole run").click()
    assert window_of(tab) == first


def test_a_run_in_which_nothing_was_asked_of_anybody_is_shown(opened: Opened, busy: Run) -> None:
    events = busy.tables["events"]
    kinds = events["kind"].cast("string")
    alone = events.filter(pc.is_in(kinds, pa.array(["published", "stopped"])))
    nothing = {"events": alone, "tasks": busy.tables["tasks"].slice(0, 0)}
    tab = opened(page(replace(busy, tables=busy.tables | nothing), "run"))
    assert tab.locator("#counts").inner_text() == "0 tasks and 0 marks of 6 clients shown"
    assert [tab.locator(name).is_visible() for name in ("#fates", "#marks", "#phases")] == [False, False, True]
    tab.locator("#scroll").focus()
    for key in ("ArrowRight", "ArrowDown", "Enter", "End"):
        tab.keyboard.press(key)


def window_of(tab: Any) -> tuple[float, float]:
    """From when to when a page shows, in virtual s."""
    tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    kept = tab.evaluate("JSON.parse(decodeURIComponent(location.hash.slice(1)))")
    return kept["from"], kept["to"]


def test_a_large_window_draws_its_first_tasks(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run", window=Window(since_s=1.0), most_tasks=10))
    shown = Tasks.of(busy.tables["tasks"]).select(since_s=1.0)
    until_s = float(np.sort(shown.dispatched_s)[9])
    assert " 10 of them, those that begin from " in tab.locator("#said p").first.inner_text()
    assert tab.locator("#counts").inner_text().startswith(f"{len(shown.select(seed=0, until_s=until_s))} tasks ")
    assert window_of(tab) == pytest.approx((1.0, until_s), abs=1e-6)
    assert tab.locator("#beyond").is_hidden()


def test_many_tasks_are_drawn_as_a_density_that_opens_on_a_click(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run", command="asyncfl view 'a run'", most_tasks=20), theme="dark")
    tasks = Tasks.of(busy.tables["tasks"]).select(seed=0)
    end_s = float(tasks.end_s[0])
    said = tab.locator("#counts").inner_text()
    assert said.startswith(f"{len(tasks)} tasks as a density: 6 lanes of 1 client, 500 spans of ")
    assert [tab.locator(name).is_visible() for name in ("#fates", "#density", "#beyond")] == [False, True, True]
    assert colours_in(tab.locator("#lanes").screenshot()) > 10
    tab.fill("#clients", "1, 3-4")
    assert " 3 of 6 lanes of 1 client" in tab.locator("#counts").inner_text()
    tab.fill("#clients", "")
    before = tab.locator("#lanes").screenshot()
    tab.select_option("#layer", "unused")
    assert tab.locator("#lanes").screenshot() != before
    box = tab.locator("#scroll").bounding_box()
    tab.mouse.click(box["x"] + box["width"] - 30, box["y"] + 8)
    from_s, to_s = window_of(tab)
    assert to_s - from_s == pytest.approx(5 * end_s / 500, rel=1e-3)
    wanted = f"asyncfl view 'a run' --since {from_s:.7g} --until {to_s:.7g}"
    assert tab.locator("#beyond code").inner_text() == wanted
    tab.get_by_role("button", name="tasks one by one").click()
    held = window_of(tab)
    assert tab.locator("#density").is_hidden()
    assert tab.locator("#fates").is_visible()
    first = tasks.select(until_s=held[1])
    assert tab.locator("#counts").inner_text().startswith(f"{len(first)} tasks ")
    tab.get_by_role("button", name="Show the whole run").click()
    assert window_of(tab) == pytest.approx((0.0, end_s), abs=1e-5)
    assert tab.locator("#counts").inner_text() == said


def test_a_run_that_is_going_says_so_and_loads_itself_again(opened: Opened, busy: Run) -> None:
    so_far = Run(busy.scenario, {name: busy.tables[name] for name in ("rounds", "events", "tasks")}, {"seeds": {}})
    tab = opened(page(so_far, "run", going="This run is under way.", reload_s=1.5))
    assert tab.locator("#said").inner_text() == "This run is under way."
    tab.evaluate("document.documentElement.dataset.older = 'yes'")
    tab.wait_for_selector("html[data-ready=yes]:not([data-older])", timeout=20_000)
    assert [tab_.inner_text() for tab_ in tab.get_by_role("tab").all()] == ["rounds"]


def test_epsilon_has_a_panel_only_where_a_run_has_privacy_or_was_audited(
    opened: Opened, busy: Run, scenario: Scenario
) -> None:
    assert "epsilon" in opened(page(busy, "run")).locator("#curves").get_attribute("aria-label")
    plain = simulate(scenario.override({"privacy": {"kind": "none"}, "seeds": 1}))
    tab = opened(page(plain, "run"))
    assert "epsilon" not in tab.locator("#curves").get_attribute("aria-label")
    assert tab.locator("#curves").bounding_box()["height"] < 6 * 76  # five panels


def test_bans_and_tasks_of_banned_clients_are_told_apart(opened: Opened, scenario: Scenario) -> None:
    changes = {
        "threats": {"attack": {"kind": "gaussian", "std": 50.0}, "attackers": 0.2},
        "defence": {"detector": {"kind": "evidence"}, "strikes": {"threshold": 1}},
        "protocol.rounds": 12,
        "seeds": 1,
    }
    run = simulate(scenario.override(changes))
    bans = int((run.events["kind"] == "banned").sum())
    assert bans > 0
    tab = opened(page(run, "run"))
    assert numbers_beside(tab, "marks")["clients banned"] == bans
    assert "banned" not in numbers_beside(tab, "fates")


def test_the_panel_of_a_tapped_task_is_in_sight_on_a_phone(opened: Opened, busy: Run) -> None:
    tab = opened(page(busy, "run"), 390)
    tab.locator("#scroll").focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    panel = tab.locator("#details h2").first.bounding_box()
    assert 0 <= panel["y"] < 1000 - panel["height"]
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
