"""`turnout reproduce`: claims of papers, run and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from turnout.errors import UserError, nearest
from turnout.workbench.cli import completion
from turnout.workbench.cli.command import Output, command, prepare_compilation
from turnout.workbench.cli.folders import cells_on, check_place
from turnout.workbench.cli.options import Again, On, Quick, Settings, Trust, size_asked
from turnout.workbench.cli.terminal import print_lines, progress_bar

if TYPE_CHECKING:
    from turnout.workbench.experiment.on_ray import RayCells
    from turnout.workbench.reproduction.claim import Claim, Profile

HOME = Path("runs") / "reproduced"


# Long: half of it are its options.
@command()
def reproduce_command(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME|FILE.toml]…",
            help="Claims: `turnout list claims` shows them.",
            autocompletion=completion.claims,
        ),
    ] = None,
    everything: Annotated[bool, Option("--all", help="All claims, one after another.")] = False,
    quick: Quick = False,
    full: Annotated[bool, Option("--full", help="In the paper's size; most need a GPU.")] = False,
    again: Again = False,
    redo: Annotated[
        Path | None, Option("--refresh", metavar="DIR", help="Check and draw stored results anew, run nothing.")
    ] = None,
    page: Annotated[
        Path | None, Option("--page", metavar="FILE.md", help="Write a page of the results that DIR holds.")
    ] = None,
    panels: Annotated[
        list[str] | None, Option("--panel", metavar="NAME", help="Only this panel of the claim, or these.")
    ] = None,
    out: Annotated[Path, Option(help="Folder of the results: <DIR>/<quick or full>/<claim>.")] = HOME,
    settings: Settings = None,
    on: On = None,
    trust: Trust = False,
    *,
    output: Output,
) -> None:
    """Run a claim of a paper and say whether it holds: the paper's number, ours, and the figure."""
    size = size_asked(quick, full)
    check_place(on)
    if redo is not None:
        results = _refresh(redo, output.quiet)
    else:
        claims = _claims(names or [], everything, size, tuple(settings or []), tuple(panels or []), trust)
        with cells_on(on) as cells:
            results = _reproduce(claims, out, again, output.quiet, cells)
    if page is not None:
        from turnout.workbench.report.claims.claims_page import claims_page

        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(claims_page(redo or out, page.parent), encoding="utf-8")
    folders = "\n".join(result.get("folder", f"{result['name']}: not run") for result in results)
    output.tell(folders, lambda: results, lambda: _print_results(results, names or []))


def _claims(
    names: list[str],
    everything: bool,
    profile: Profile | None,
    settings: tuple[str, ...],
    panels: tuple[str, ...],
    trust: bool,
) -> list[Claim]:
    from turnout.workbench.experiment import registry
    from turnout.workbench.experiment.trust import Code

    for name in names:
        registry.claim_path(name)
    from turnout.workbench.reproduction.claim import claim_names, read_claim

    if everything == bool(names):
        raise UserError(f"name claims, or --all: {nearest('', claim_names())}")
    code = Code.IMPORTED if trust else None  # else as the place of each file says
    return [read_claim(name, profile, settings, panels, code) for name in names or claim_names()]


def _reproduce(
    claims: list[Claim], out: Path, again: bool, quiet: bool, cells: RayCells | None
) -> list[dict[str, Any]]:
    """Results in order; a claim that was run before is not run again, and one that cannot run gives the reason."""
    from turnout.workbench.reproduction.reproduce import reproduce
    from turnout.workbench.reproduction.stored import folder_of_same_runs, is_done, not_run, read_result, reproduce_from

    prepare_compilation()
    draw, results = _drawing(), []
    for number, claim in enumerate(claims):
        folder = out / claim.profile / claim.folder_name
        if not again and is_done(claim, folder):
            results.append(read_result(folder) | {"folder": str(folder)})
            continue
        try:
            same = None if again else folder_of_same_runs(claim, out / claim.profile)
            if same is not None:
                reproduce_from(claim, same, folder, draw)
            else:
                with progress_bar(not quiet, f"{claim.name} ({number + 1} of {len(claims)})") as progress:
                    reproduce(claim, folder, progress, draw, again, cells)
            results.append(read_result(folder) | {"folder": str(folder)})
        except UserError as error:
            if len(claims) == 1:
                raise
            results.append(not_run(claim, str(error)))
    return results


def _refresh(folder: Path, quiet: bool) -> list[dict[str, Any]]:
    from turnout.workbench.reproduction.stored import refresh, reproductions

    folders = reproductions(folder, "**")
    if not folders:
        raise UserError(f"{folder}: holds no result of a reproduction")
    draw = _drawing()
    with progress_bar(not quiet, "checking") as progress:
        results, damaged = [], []
        for number, stored in enumerate(folders):
            try:
                results.append(refresh(stored, draw) | {"folder": str(stored)})
            except UserError as error:
                damaged.append(str(error))
            if progress is not None:
                progress((number + 1) / len(folders))
    if damaged:
        raise UserError(f"{len(damaged)} of {len(folders)} results were left as they are: {'; '.join(damaged)}")
    return results


def _drawing() -> Any:
    """The function that draws a figure, or None if its libraries are not installed."""
    try:
        from turnout.workbench.report.claims.claim_figure import write_figure
    except ImportError as error:
        if (error.name or "").split(".")[0] == "turnout":
            raise
        typer.echo(f"no figures: {error}; `turnout reproduce --refresh` draws them elsewhere", err=True)
        return None
    return write_figure


def _print_results(results: list[dict[str, Any]], names: list[str]) -> None:
    """Print a table, sentences, and the next command after one claim in its quick size."""
    from turnout.workbench.report.claims.claims_page import claims_table, claims_words

    small = len(names) == len(results) == 1 and results[0]["profile"] == "quick"
    ends = [f"Next: turnout reproduce {names[0]} --full   (in the paper's size)"] if small else []
    print_lines(claims_table(results), claims_words(results), *ends)
