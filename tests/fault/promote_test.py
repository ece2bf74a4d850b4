#!/usr/bin/python3
# situations: user root* userns*
# limit: 1800 s
"""A promotion, its recovery and an undo are killed at each of their system
calls, and each of these fails once.

After a kill every path of the source is one side or the other; the next command
makes all of it one side, tells as pending what is not there, and leaves nothing
beside the tree. A call that fails ends with 125 and a text and the source as it
was, or did no harm.

`make check` takes the first and the last of each call and some by a fixed seed,
`make check-all` all of them.
"""
import errno
import os
import random
import shutil
import stat
import sys

import calls
from calls import ALL, SEED, box
from box import Failure, case, check

EXTRA = 50
NOT_FAILED = {'exit', 'exit_group', 'rt_sigreturn', 'arch_prctl', 'getpid',
              'getppid', 'getuid', 'geteuid', 'getgid', 'getegid', 'gettid',
              'umask', 'set_tid_address', 'execve', 'brk'}
ERRORS = (errno.ENOSPC, errno.EIO)
CHANGE = '''
    set -e
    echo more >>kept; rm gone; echo n >new; rm -r tree; echo file >was-dir.tmp
    rm -r was-dir; mv was-dir.tmp was-dir; rm was-file; mkdir was-file
    echo in >was-file/in; chmod 700 closed; ln new linked; ln -sf new link
    mkdir -p d/e/f; echo x >d/e/f/g; chmod 555 d/e; echo >.envrc
'''


def look(top):
    """Mapping of path to (type, permissions, owner, content)."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(top)):
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            what = b''
            if stat.S_ISREG(st.st_mode):
                with open(path, 'rb') as f:
                    what = f.read()
            elif stat.S_ISLNK(st.st_mode):
                what = os.readlink(path)
            found[os.path.relpath(path, os.fsencode(top))] = (
                st.st_mode, st.st_uid, what)
    return {p: w for p, w in found.items() if not p.startswith(b'.pinfold-')}


class Stand(calls.Stand):
    def __init__(self, b):
        super().__init__(b)
        self.failures = []
        self.finished = self.back = self.refused = self.harmless = 0
        for name in ('kept', 'gone', 'tree/a/b', 'was-dir/x', 'was-file',
                     'closed/f'):
            b.write(name, name + '\n')
        os.symlink('kept', f'{b.source}/link')
        self.before = look(b.source)
        r = b.sh(CHANGE, '--json').expect(0)
        self.task = r.json()['id']
        self.pending = self.changes()
        self.run('promote', '--yes').expect(0)
        self.after = look(b.source)
        check(self.after != self.before, 'nothing was promoted')
        self.run('undo').expect(0)
        check(look(b.source) == self.before, 'the undo is not one')

    def changes(self):
        return {c['path'] for c in self.box.changes(self.task)['changes']}

    def calls(self, *words):
        return [c for c in self.counts(*words) if c[1] not in NOT_FAILED]

    # ---- judging ----

    def mixed(self):
        """What is neither side, path by path."""
        now = look(self.box.source)
        wrong = []
        for path in set(now) | set(self.before) | set(self.after):
            sides = [self.before.get(path), self.after.get(path)]
            # A directory is open while it is filled.
            seen = now.get(path)
            if seen and stat.S_ISDIR(seen[0]):
                seen = (seen[0] | 0o700, *seen[1:])
                sides = [s and (s[0] | 0o700, *s[1:]) for s in sides]
            if seen not in sides:
                wrong.append(f'{path!r} is {seen}')
        return wrong

    def settled(self):
        """None if all is one side and pending says which; else why not."""
        now, pending = look(self.box.source), self.changes()
        if os.path.exists(f'{self.box.state}/promoting'):
            return 'the mark is left'
        if now == self.before and pending == self.pending:
            return None
        if now == self.after and pending == {'.envrc'}:
            return None
        odd = {p: (now.get(p), self.before.get(p), self.after.get(p))
               for p in set(now) | set(self.before)
               if now.get(p) not in (self.before.get(p), self.after.get(p))}
        return (f'neither side: odd {box.short(odd)}, pending '
                f'{sorted(pending)}, before {now == self.before}, after '
                f'{now == self.after}')

    def reset(self, to_after, name='the first'):
        if look(self.box.source) == self.after:
            self.finished += 1
            if not to_after:
                self.run('undo').expect(0)
        else:
            self.back += 1
            if to_after:
                self.run('promote', '--yes').expect(0)
        left = [n for n in os.listdir(self.box.source)
                if n.startswith('.pinfold-')]
        if not to_after and left:
            self.failures.append(f'{name} left in the source: {left}')
            for n in left:
                shutil.rmtree(f'{self.box.source}/{n}')

    def kill(self, what, to_after, *words):
        role, call, nth = what
        self.inject('-k', f'{role}:{call}:{nth}', *words)
        why = self.mixed()
        self.run('diff')
        why = why or self.settled()
        if why:
            self.failures.append(f'{role}:{call}:{nth}: {why}')
        self.reset(to_after, f'{role}:{call}:{nth}')

    def fail(self, what, to_after, *words):
        role, call, nth, number = what
        r, _ = self.inject('-e', f'{role}:{call}:{nth}:{number}', *words)
        name = f'{role}:{call}:{nth}:{errno.errorcode[number]}'
        why = self.mixed()
        now = look(self.box.source)
        if r.status not in (0, 1, 125):
            why = why or f'status {r.status}: {r}'
        elif r.status == 125 and not r.text().startswith('pinfold: '):
            why = why or f'nothing is said: {r}'
        self.refused += r.status == 125
        self.harmless += r.status == 0
        self.run('diff')
        why = why or self.settled()
        if r.status == 0 and not why and now != look(self.box.source):
            why = f'it said that all was well: {r}'
        if why:
            self.failures.append(f'{name}: {why}')
        self.reset(to_after, name)

    def all_of(self, cases, function, to_after, *words):
        for what in cases:
            function(what, to_after, *words)
            if len(self.failures) > 5:
                break
        if self.failures:
            raise Failure(f'{len(self.failures)} of {len(cases)}: ' +
                          ' | '.join(t[:600] for t in self.failures[:5]))
        return (f'{len(cases)} calls: {self.finished} ended after, '
                f'{self.back} before' +
                (f', {self.refused} refused, {self.harmless} harmless'
                 if self.refused + self.harmless else ''))


def chosen(found, extra=EXTRA):
    every = [(role, call, n) for role, call, count in found
             for n in range(1, count + 1)]
    if ALL:
        return every
    ends = {(role, call, n) for role, call, count in found
            for n in (1, count)}
    rest = [c for c in every if c not in ends]
    random.Random(SEED).shuffle(rest)
    return sorted(ends) + sorted(rest[:extra])


def with_errors(cases):
    return [(*c, number) for c in cases
            for number in (ERRORS if ALL else
                           [ERRORS[sum(map(ord, c[1])) % len(ERRORS)]])]


def renames(found):
    return [(role, call, n) for role, call, count in found
            if call in ('renameat2', 'renameat') for n in range(1, count + 1)]


@case
def a_promotion_that_is_killed_at_any_call_is_finished_or_taken_back(b):
    stand = Stand(b)
    found = stand.calls('promote', '--yes')
    stand.reset(False)
    cases = sorted(set(chosen(found)) | set(renames(found)))
    return stand.all_of(cases, stand.kill, False, 'promote', '--yes')


@case
def an_undo_that_is_killed_at_any_call_is_finished(b):
    stand = Stand(b)
    stand.run('promote', '--yes').expect(0)
    found = stand.calls('undo')
    stand.reset(True)
    cases = sorted(set(chosen(found)) | set(renames(found)))
    return stand.all_of(cases, stand.kill, True, 'undo')


@case
def a_recovery_that_is_killed_at_any_call_is_finished_by_the_next(b):
    stand = Stand(b)
    found = renames(stand.calls('promote', '--yes'))
    stand.reset(False)
    middle = found[len(found) // 2]
    stand.inject('-k', ':'.join(map(str, middle)), 'promote', '--yes')
    again = stand.calls('diff')
    stand.reset(False)
    cases = chosen(again, 20)
    for role, call, nth in cases:
        stand.inject('-k', ':'.join(map(str, middle)), 'promote', '--yes')
        stand.inject('-k', f'{role}:{call}:{nth}', 'diff')
        stand.run('diff')
        why = stand.settled()
        if why:
            raise Failure(f'{role}:{call}:{nth}: {why}')
        stand.reset(False)
    return f'{len(cases)} calls'


@case
def a_call_of_a_promotion_that_fails_takes_all_of_it_back_or_does_no_harm(b):
    stand = Stand(b)
    found = stand.calls('promote', '--yes')
    stand.reset(False)
    cases = sorted(set(chosen(found)) | set(renames(found)))
    return stand.all_of(with_errors(cases), stand.fail, False, 'promote',
                        '--yes')


@case
def a_call_of_an_undo_that_fails_leaves_what_the_next_command_finishes(b):
    stand = Stand(b)
    stand.run('promote', '--yes').expect(0)
    found = stand.calls('undo')
    stand.reset(True)
    return stand.all_of(with_errors(chosen(found)), stand.fail, True, 'undo')


@case
def a_journal_that_was_cut_is_named_and_nothing_is_done_by_it(b):
    for name in ('f', 'g'):
        b.write(name, 'old\n')
    task = b.sh('echo new | tee f g', '--json').expect(0).json()['id']
    b.pinfold('promote', '--yes', task).expect(0)
    held = f'{b.folder(task)}/held/1'
    size = os.path.getsize(f'{held}/journal.done')
    os.truncate(f'{held}/journal.done', size - 8)
    after, says = look(b.source), 'the journal of promotion 1 is cut short'
    for verb in (['undo'], ['diff'], ['promote', '--yes']):
        b.pinfold(*verb, task).expect(125, text=says)
        check(look(b.source) == after, verb)
    # As one that was interrupted: the next start would finish it.
    os.rename(f'{held}/journal.done', f'{held}/journal.go')
    os.makedirs(f'{b.state}/promoting', 0o700, exist_ok=True)
    with open(f'{b.state}/promoting/{task}', 'w', encoding='ascii'):
        pass
    b.sh('true').expect(0, text=says)
    check(look(b.source) == after, 'finished or taken back')
    check(os.path.exists(f'{held}/journal.go'), 'the originals are gone')
    b.pinfold('discard', '--yes', task).expect(0)
    check(look(b.source) == after, 'discarded')
    check(not os.path.exists(held), 'it goes with the changes')


if __name__ == '__main__':
    # Another mount than the source's, so that both places of a stage occur: an
    # ordinary user's state lies on the source's own.
    calls.private_mounts('/var/lib/pinfold')
    sys.exit(box.main())
