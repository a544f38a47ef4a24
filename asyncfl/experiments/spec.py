"""The typed content of an experiment file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, ValidationError, field_validator, model_validator

from asyncfl.base.component import Described
from asyncfl.base.quantities import is_number
from asyncfl.experiments.bounds import Bounds
from asyncfl.experiments.claims import Claim
from asyncfl.experiments.claims.base import SmallestDifference
from asyncfl.experiments.covering import CoveredFactors
from asyncfl.experiments.departures import PrintedFields
from asyncfl.experiments.evidence.decision import LEFT, ONE_LOOK, Looks
from asyncfl.experiments.figures import Figure
from asyncfl.experiments.files import MOST_LOOKS
from asyncfl.experiments.grid import AxisValues, ExperimentPart, Reference, points, restricted, several
from asyncfl.experiments.table import Table
from asyncfl.experiments.target import Target
from asyncfl.scenario import MOST_SEEDS

Scale = Literal["quick", "full"]
SCALES: tuple[Scale, ...] = get_args(Scale)
Author = Literal["paper", "others", "ours"]
"""Author of a claim: a paper that prints it | others, whose numbers of the same settings ours are held against | we, of
our own designs and readings."""
AUTHORS: tuple[Author, ...] = get_args(Author)
OUTSIDE = "outside"
"""`source.paper` of experiments whose claims are numbers of other libraries."""

Count = Annotated[int, Field(ge=1, le=MOST_SEEDS)]
Seed = Annotated[int, Field(ge=0)]
Seeds = Count | Annotated[tuple[Seed, ...], Field(min_length=1, max_length=MOST_SEEDS)]
"""A number N of seeds, which stands for 0..N-1, or a list of them."""


class Source(Described):
    """Origin of an experiment."""

    paper: str
    """Short name of the paper: nbafl, safl, adaptive, mechanisms, dp_fedavg; outside: results of other libraries."""
    figure: int | str | None = None
    """Number of the figure or name of the table there."""

    def __str__(self) -> str:
        if self.paper == OUTSIDE and self.figure is not None:
            return str(self.figure)
        papers = {"nbafl": "NbAFL", "safl": "SAFL", "adaptive": "adaptive DP", "dp_fedavg": "DP-FedAvg"}
        where = f", fig. {self.figure}" if isinstance(self.figure, int) else f", {self.figure}"
        return papers.get(self.paper, self.paper) + ("" if self.figure is None else where)


class UploadAttack(Described):
    """Attack on one upload of each seed: images by some methods, and labels."""

    methods: Annotated[tuple[Literal["first_layer", "cosine", "l2"], ...], Field(min_length=1)] = ("first_layer",)
    """Division at a dense first layer | descent on the cosine distance of gradients | on their L2 distance."""
    adversary: Literal["eavesdropper", "server"] = "eavesdropper"
    """Adversary whose first upload of an honest client is attacked."""
    images: Annotated[int, Field(ge=1, le=1000)] = 16
    """Most images that are reconstructed."""
    steps: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    """Steps of a descent."""


class MembershipInference(Described):
    """Membership inference against each run: by the loss of its last model, and by uploads."""

    adversary: Literal["eavesdropper", "server"] = "server"
    """Adversary that holds the uploads."""
    clients: Annotated[int, Field(ge=1)] = 5
    """Most clients whose uploads are attacked."""
    worlds: Annotated[int, Field(ge=8, le=100_000)] = 64
    """Shadow models that are trained for each attacked upload."""


class CellSeeds(ExperimentPart):
    """Seeds of some cells at full scale."""

    where: Annotated[dict[str, Any], Reference("where")]
    """Axis or variant -> value or label, or a list of several."""
    seeds: Seeds

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Return whether these seeds are those of the cell at these values."""
        return all(axis in values and values[axis] in several(wanted) for axis, wanted in self.where.items())


class LookPlan(Described):
    """Seeds that are added look by look, where claims are still undecided: `{looks: [3, 6, 12]}`."""

    looks: Annotated[tuple[Annotated[int, Field(ge=2, le=MOST_SEEDS)], ...], Field(min_length=1, max_length=MOST_LOOKS)]
    """Numbers of seeds, ascending; N seeds are 0..N-1."""
    added: tuple[int, ...] = ()
    """The last of these numbers, where they were added because the planned ones had left claims open."""

    @model_validator(mode="after")
    def _has_a_level(self) -> Self:
        planned = Looks(at=self.looks, added=self.added).planned
        if self.added and (planned, self.added) not in LEFT:
            known = "; ".join(f"{list(after)} after {list(of)}" for of, after in LEFT)
            raise ValueError(
                f"must be looks for which something of the level is left ({known}), got {list(self.added)} after "
                f"{list(planned)}"
            )
        return self

    @field_validator("looks")
    @classmethod
    def _ascending(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if list(value) != sorted(set(value)):
            raise ValueError(f"must be numbers of seeds in ascending order, got {list(value)}")
        return value


class SeedPlan(Described):
    """Seeds of each cell, by scale: a number N means 0..N-1, `{looks: [3, 6, 12]}` so many as claims take.

    A label of a variant may set `seeds` for its own cells at full scale: fewer where they cost much more than others,
    more where a claim rests on them.
    """

    quick: Seeds | LookPlan = 2
    full: Seeds | LookPlan = 6
    cells: tuple[CellSeeds, ...] = ()
    """Cells that have other seeds at full scale, whatever their labels say; of several that fit the last one counts."""

    def at(self, scale: Scale) -> tuple[int, ...]:
        """Return the seeds at a scale; with looks, those of the last one."""
        seeds: Any = getattr(self, scale)
        seeds = seeds.looks[-1] if isinstance(seeds, LookPlan) else seeds
        return tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)

    def looks(self, scale: Scale) -> Looks:
        """Return the looks at which claims are judged at a scale: one, where the seeds are listed or counted."""
        seeds = getattr(self, scale)
        return Looks(self.at(scale), seeds.looks, seeds.added) if isinstance(seeds, LookPlan) else ONE_LOOK


class Experiment(Described):
    """A grid of scenarios with its figures and claims."""

    title: str
    """The subject, in one line."""
    source: Source
    scenario: dict[str, Any] | None = None
    """The scenario that all cells start from; None: only `bounds` are drawn."""
    axes: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Dotted field of the scenario -> its values; the cells are all combinations."""
    variants: dict[str, dict[str, dict[str, Any]]] = Field(default_factory=dict)
    """Name of an axis -> label -> dotted fields that change together; with `recorded`, cells whose runs are not
    computed but were recorded, see `RecordedRuns`."""
    covered: dict[str, CoveredFactors] = Field(default_factory=dict)
    """Name of an axis -> factors of which not all combinations are run, but all of any few. It stands before the
    variants, which change what it has set."""
    bounds: dict[str, Bounds] = Field(default_factory=dict)
    """Name -> a grid of bound values."""
    targets: dict[str, Target] = Field(default_factory=dict)
    """Name of a column of final values, such as `time_to_target` -> the target whose cost it holds."""
    pictures: UploadAttack | None = None
    """Attack on one upload of each run, which gives columns such as `ssim_first_layer`; null: none."""
    membership: MembershipInference | None = None
    """Membership inference against each run, which gives columns such as `membership_area_model_loss`; null: none."""
    seeds: SeedPlan = SeedPlan()
    quick: dict[str, Any] = Field(default_factory=dict)
    """Changes at quick scale: dotted fields; `axes.<name>` and `variants.<name>` (a part of the values); and
    `variants.<name>.<label>.<dotted field>`, set in the cells of that label after the label's own changes."""
    quick_cells: Literal["all", "claims"] = "all"
    """Cells that quick scale runs: all combinations | those that a claim compares."""
    on_request: bool = False
    """Whether quick scale runs the experiment only if `only` names it: checks of our own designs, on which no claim
    about a paper rests."""
    figure: Figure | None = None
    """The figure, where there is one."""
    figures: tuple[Figure, ...] = ()
    """The figures, where there are several."""
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    left_out: tuple[ExperimentPart, ...] = ()
    """Parts of the grid that are run at no scale."""
    prints: PrintedFields = Field(default_factory=dict)
    """Field of the scenario -> what is printed of it for this experiment. It stands in place of what the list of
    its paper says of that field, and of the fields below it."""
    immaterial: tuple[str, ...] = ()
    """Fields of the scenario that change nothing that the claims are about, such as the model where the clock alone is
    judged: they are no departures."""
    margins: dict[str, str] = Field(default_factory=dict)
    """Margin or tolerance of claims, a number in quotes -> why it is what it is."""
    smallest: dict[str, SmallestDifference] = Field(default_factory=dict)
    """Column, or the beginning of columns' names -> smallest difference that matters, for all claims that ask which of
    two values is larger, or on which side of a threshold one is. Where the whole interval of the difference is smaller
    the verdict is `alike`. The longest name that fits counts."""
    name: str = ""
    """`<folder>/<file>` below the folder of experiments; set by the reader."""
    folder: str = ""
    """Folder of its file; set by the reader."""
    papers: dict[str, PrintedFields] = Field(default_factory=dict)
    """Short name of a paper -> what it prints of fields of the scenario; set by the reader."""

    @model_validator(mode="before")
    @classmethod
    def _with_settings(cls, raw: Any) -> Any:
        """Add the settings of covered factors as variants."""
        if not isinstance(raw, dict) or not isinstance(raw.get("covered"), dict):
            return raw
        try:
            covered = {name: CoveredFactors.model_validate(one).settings() for name, one in raw["covered"].items()}
        except ValidationError:
            return raw  # a fault of the field `covered` itself
        variants = raw.get("variants") or {}
        return {**raw, "variants": {**covered, **variants}} if isinstance(variants, dict) else raw

    @field_validator("margins")
    @classmethod
    def _numbers(cls, value: dict[str, str]) -> dict[str, str]:
        for number in value:
            if not is_number(number):
                raise ValueError(f"names of margins must be numbers, got {number!r}")
        return value

    @model_validator(mode="after")
    def _declared(self) -> Experiment:
        """Tell the claims the smallest differences of their values."""
        for claim in self.claims:
            claim.declare_smallest(self.smallest)
        return self

    @property
    def all_figures(self) -> tuple[Figure, ...]:
        return self.figures if self.figure is None else (self.figure, *self.figures)

    def author(self, claim: Claim) -> Author:
        """Return who makes a claim of this experiment."""
        if self.source.paper == OUTSIDE:
            return "others"
        return "paper" if claim.printed else "ours"

    def printed_fields(self, paper: str) -> PrintedFields:
        """Return what a paper prints of the fields of this experiment's scenario."""
        replaced = (*self.prints, *self.immaterial)
        listed = self.papers.get(paper, {}).items()
        return {
            **{field: about for field, about in listed if not any(f"{field}.".startswith(f"{of}.") for of in replaced)},
            **self.prints,
        }

    def sentence_of(self, claim: Claim) -> str:
        """Return the sentence of its paper that a claim checks; empty for claims of ours."""
        return (claim.sentence or claim.printed) if self.author(claim) == "paper" else ""

    def source_of(self, claim: Claim) -> Source:
        """Return where a claim is printed; of our own claims the source of the experiment."""
        if not claim.printed:
            return self.source
        return Source(paper=claim.paper or self.source.paper, figure=claim.printed)

    def margin_why(self, claim: Claim) -> str:
        """Return why a claim's margin is what it is; empty where nothing is said of it, or it has none."""
        if not claim.margin_asked:
            return ""
        reasons = {float(number): why for number, why in self.margins.items()}
        return claim.margin_why or reasons.get(claim.margin_asked, "")

    def grid(self, scale: Scale) -> dict[str, tuple[Any, ...]]:
        """Return axis or variant -> its values (labels of variants), thinned at quick scale."""
        quick = self.quick if scale == "quick" else {}
        axes = {name: tuple(quick.get(f"axes.{name}", values)) for name, values in self.axes.items()}
        return axes | {name: tuple(quick.get(f"variants.{name}", of)) for name, of in self.variants.items()}

    def overrides(self, scale: Scale) -> dict[str, Any]:
        """Return the dotted fields that the scale changes in every cell."""
        quick = self.quick if scale == "quick" else {}
        return {name: value for name, value in quick.items() if not name.startswith(("axes.", "variants."))}

    def seed_counts(self, scale: Scale) -> tuple[int, ...]:
        """Return the numbers of seeds that cells have at a scale, ascending; several where labels set their own."""
        counts = {len(self.seeds.at(scale)), *self.seeds.looks(scale).at}
        if scale == "full":
            changes = [changes for labels in self.variants.values() for changes in labels.values()]
            own = [of["seeds"] for of in changes if "seeds" in of] + [exception.seeds for exception in self.seeds.cells]
            counts |= {seeds if isinstance(seeds, int) else len(seeds) for seeds in own}
        return tuple(sorted(counts))

    def runs(self, values: Mapping[str, Any], scale: Scale) -> bool:
        """Return whether a scale runs the cell at these axis values."""
        if any(all(values[axis] in several(of) for axis, of in part.where.items()) for part in self.left_out):
            return False
        everything = scale == "full" or self.quick_cells == "all"
        return everything or any(claim.compares(values) for claim in self.claims)

    def changes(self, axis: str, value: Any, scale: Scale) -> dict[str, Any]:
        """Return the dotted fields that a value of an axis, or a label of a variant, changes at a scale."""
        if axis not in self.variants:
            return {axis: value}
        return {**self.variants[axis][value], **(self.within(axis, value) if scale == "quick" else {})}

    def within(self, variant: str, label: str) -> dict[str, Any]:
        """Return the dotted fields that quick scale changes in the cells of one label of a variant alone."""
        places = {name: place_in_variant(name, self.variants) for name in self.quick}
        return {p[2]: self.quick[name] for name, p in places.items() if p is not None and p[:2] == (variant, label)}

    def values_run(self, scale: Scale, where: Mapping[str, Any] | None = None) -> AxisValues:
        """Return axis or variant -> its values of which the scale runs a cell.

        where: axis -> value or list of values of the cells in question; None: all.
        """
        grid = restricted(self.grid(scale), dict(where or {}))
        run = [values for values in points(grid) if self.runs(values, scale)]
        return {axis: tuple(v for v in of if any(cell[axis] == v for cell in run)) for axis, of in grid.items()}

    def lowered(
        self,
        scale: Scale,
        where: Mapping[str, Any] | None = None,
        seeds: int | None = None,
        computed: AxisValues | None = None,
    ) -> list[str]:
        """Return in words what the scale lowers against the full one, for captions.

        where: axis -> value or list of values of the cells in question; None: all. seeds: the most that these cells
        have; None: the most that are planned. computed: axis -> values that a run has; None: those of the plan.
        """
        where = where or {}
        if scale == "full":
            return []
        parts = [f"{name} = {_short(value)}" for name, value in self.overrides(scale).items()]
        grid = self.values_run(scale, where) if computed is None else computed
        full = self.values_run("full", where)
        for name in (name for name in grid if len(grid[name]) < len(full[name]) and name not in where):
            parts.append(f"{name} at {len(grid[name])} of {len(full[name])} values")
        for axis in self.variants:
            for label in (label for label in grid[axis] if label in several(where.get(axis, label))):
                fields = self.within(axis, label).items()
                parts += [f"{name} = {_short(value)} where {axis} is {label}" for name, value in fields]
        if self.quick_cells == "claims":
            parts.append("only cells that claims compare")
        few, many = seeds or self.seed_counts("quick")[-1], self.seed_counts("full")[-1]
        return [*parts, f"{few} of {many} seeds"] if few < many else parts


def place_in_variant(name: str, variants: Mapping[str, Mapping[str, Any]]) -> tuple[str, str, str] | None:
    """Return (variant, label, field) of a key of `quick` such as `variants.model.CNN.protocol.rounds`, or None.

    Names and labels may contain dots themselves; the longest that fit count.
    """
    found = [
        (variant, label, name.removeprefix(start))
        for variant, labels in variants.items()
        for label in labels
        if name.startswith(start := f"variants.{variant}.{label}.") and name != start
    ]
    return max(found, key=lambda place: len(place[0]) + len(place[1]), default=None)


def _short(value: Any) -> str:
    return "{" + ", ".join(f"{k}: {v}" for k, v in value.items()) + "}" if isinstance(value, dict) else str(value)
