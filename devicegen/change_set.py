"""What has to change on disk, file by file, and why. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from devicegen.change import Action, Change
from devicegen.decisions import Decisions
from devicegen.disk import as_it_was_saved, on_disk
from devicegen.errors import CannotEdit
from devicegen.facts.pytest_config import PytestConfig
from devicegen.facts.repository import RECORD
from devicegen.marker_registry import add_markers
from devicegen.marker_renewal import markers_of, renew_markers
from devicegen.owned_block import plan_block
from devicegen.owned_file import Owned, plan_owned
from devicegen.record import FOLDER, Record

OURS_IN_THE_RECORD = (".pristine", ".pending")


@dataclass(frozen=True)
class ChangeSet:
    """All changes, the record's own files last and ``record.toml`` the last that is written.

    ``owned`` says more of the files that we own. ``notes`` are lines for the user about what
    could not be done and is not needed.
    """

    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()
    owned: tuple[Owned, ...] = ()

    @property
    def refused(self) -> tuple[Change, ...]:
        """The files that stand in the way."""
        return tuple(change for change in self.changes if change.action is Action.REFUSE)

    @property
    def written(self) -> tuple[Change, ...]:
        """The files to which anything happens, in order."""
        return tuple(change for change in self.changes if change.writes)

    @property
    def of_the_project(self) -> tuple[Change, ...]:
        """Those of the project, not of the record."""
        return tuple(each for each in self.written if not each.path.startswith(f"{FOLDER}/"))

    @property
    def conflicts(self) -> tuple[Change, ...]:
        """The files that get conflict markers."""
        return tuple(change for change in self.written if change.conflicts)

    def diff(self) -> Iterator[str]:
        """Yield a unified diff of the project's files, line by line; not of the record's."""
        for change in self.of_the_project:
            yield from change.diff()


def plan_changes(
    top: Path,
    texts: dict[str, str],
    decisions: Decisions,
    config: PytestConfig,
    record: Record | None,
    new_record: Record,
    *,
    restore: bool = False,
) -> ChangeSet:
    """Compare what was rendered with what is on disk and with what an earlier run wrote.

    ``texts`` maps each path that we own to its rendered text, or to the block that goes in there;
    ``restore`` tells that one which the user deleted is to come back. ``new_record`` is the record
    as it is to be where all goes well; its registry is dropped where the configuration cannot be
    edited, and it stays at the old version for a file that is not clean afterwards.
    """
    shared = decisions.conftest if decisions.shared else None
    owned = tuple(
        (plan_block if path == shared else plan_owned)(
            top, path, text, record, new_record.version, restore=restore
        )
        for path, text in texts.items()
    )
    changes = [each.change for each in owned]
    notes = [note for each in owned for note in each.notes]
    if decisions.registry is not None:
        try:
            changes.append(_registry(top, decisions, decisions.registry, config, record))
        except CannotEdit as error:
            notes.append(str(error))
            new_record = replace(new_record, registry=None)
    new_record = _as_it_is_to_be(new_record, record, owned)
    recorded = new_record.texts()
    changes += [_record_file(top, path, text) for path, text in recorded.items()]
    changes += _no_longer_recorded(top, recorded)
    return ChangeSet(tuple(changes), tuple(notes), owned)


def _as_it_is_to_be(new: Record, old: Record | None, owned: tuple[Owned, ...]) -> Record:
    """Move the record to the new version only where every file is clean."""
    pristine = {each.change.path: each.base for each in owned if each.base is not None}
    pending = {each.change.path: each.pending for each in owned if each.pending is not None}
    if old is not None and not all(each.is_clean for each in owned):
        new = replace(new, version=old.version)
    return replace(new, pristine=pristine, pending=pending)


def _registry(
    top: Path, decisions: Decisions, path: str, config: PytestConfig, record: Record | None
) -> Change:
    markers = decisions.markers
    before, obstacle = on_disk(top, path)
    if before is None and not obstacle and decisions.adds_config:
        return Change(path, Action.CREATE, None, add_markers("", config, markers).encode())
    if obstacle or before is None:
        raise CannotEdit(f"{path}: {obstacle or 'is gone'}; the marker lines were not added")
    try:
        text = before.decode()
    except UnicodeDecodeError as error:
        raise CannotEdit(f"{path}: is not UTF-8; the marker lines were not added") from error
    written = record.pristine.values() if record is not None and record.registry == path else ()
    for harness in written:
        text = renew_markers(text, config, markers_of(harness), markers)
    after = add_markers(text, config, markers).encode()
    return Change(path, Action.KEEP if after == before else Action.UPDATE, before, after)


def _record_file(top: Path, path: str, text: str) -> Change:
    before, obstacle = on_disk(top, path)
    if obstacle:
        return Change(path, Action.REFUSE, before, before, obstacle)
    if before is None:
        return Change(path, Action.CREATE, None, text.encode())
    after = as_it_was_saved(text, before)
    return Change(path, Action.KEEP if after == before else Action.UPDATE, before, after)


def _no_longer_recorded(top: Path, recorded: dict[str, str]) -> Iterator[Change]:
    """Yield the deletion of each text of an earlier run that the record does not name now."""
    folder = top / FOLDER
    if RECORD not in recorded or folder.is_symlink():
        return
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(top).as_posix()
        if name.endswith(OURS_IN_THE_RECORD) and name not in recorded:
            before, obstacle = on_disk(top, name)
            if before is not None and not obstacle:
                yield Change(name, Action.DELETE, before, None)
