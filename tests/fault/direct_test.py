#!/usr/bin/python3
# situations: root user userns*
# limit: 1800 s
"""A run that writes its source at once is killed at its system calls: its front
end, who looks through the source at the end, its keeper, its init.

The next command does what is left to do: nothing that is protected is left in the
source but what was there, and what the command had made there is in the layer,
whole. So it is too when the next command is killed, for the one after it.

`make check` takes each rename and some other calls by a fixed seed, `make check-all`
all of them.
"""
import os
import random
import shutil
import stat
import sys

import calls
from calls import ALL, SEED, box
from box import Failure, case, check

EXTRA = 24
OWNER = 23456
# Their first calls are before anything was written, and there are many.
ROLES = ('front', 'keeper')
MADE = '''
    mkdir -p a/b .vscode/deep/er n/.git/hooks
    echo one >a/b/.envrc; echo two >.vscode/tasks.json
    ln .vscode/tasks.json .vscode/deep/too; ln -s tasks.json .vscode/link
    echo three >.vscode/deep/er/settings; chmod 0 .vscode/deep/er
    echo four >n/.git/hooks/pre-commit; rm sub/.envrc; echo evil >sub/.envrc
    echo plain >plain; ln plain .bashrc; echo end >end
'''
KEPT = {b'.idea/x', b'sub/.envrc'}
HELD = {b'a/b/.envrc', b'.vscode', b'n/.git', b'sub/.envrc', b'.bashrc'}


def look(top):
    """Mapping of path to (type, content), of what is no directory."""
    found, top = {}, os.fsencode(top)
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            st, what = os.lstat(path), b''
            if stat.S_ISREG(st.st_mode):
                with open(path, 'rb') as f:
                    what = f.read()
            elif stat.S_ISLNK(st.st_mode):
                what = os.readlink(path)
            found[os.path.relpath(path, top)] = (stat.S_IFMT(st.st_mode), what)
    return found


def open_all(top):
    """An ordinary user does not read what the command has closed."""
    for folder, folders, _ in os.walk(top):
        for name in folders:
            path = os.path.join(folder, name)
            if os.stat(path).st_mode & 0o700 != 0o700:
                os.chmod(path, 0o700)


def is_held(path):
    return any(path == h or path.startswith(h + b'/') for h in HELD)


class Stand(calls.Stand):
    def __init__(self, b):
        super().__init__(b)
        self.failures, self.whole, self.cut = [], 0, 0
        self.fresh()
        b.run(*self.words()).expect(0)
        self.after = self.sides()
        check(set(self.after[0]) & KEPT == KEPT and b'end' in self.after[0],
              f'the source is {self.after[0]}')
        check({p for p in self.after[1] if is_held(p)} ==
              set(self.after[1]) and len(self.after[1]) == 8,
              f'the layer is {self.after[1]}')

    def words(self):
        return ['--workspace', 'direct', '--', 'sh', '-c', MADE]

    def fresh(self):
        b = self.box
        for name in os.listdir(b.source):
            path = f'{b.source}/{name}'
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        b.write('.idea/x', 'host\n')
        b.write('real', 'real\n')
        b.write('sub/keep', 'keep\n')
        os.symlink('../real', f'{b.source}/sub/.envrc')
        if box.ROOT:
            for folder, folders, files in os.walk(b.source):
                for name in ['.'] + folders + files:
                    os.lchown(os.path.join(folder, name), OWNER, OWNER)

    def newest(self):
        """The task of the run that was just killed, if it came to be one."""
        folder = f'{self.box.state}/tasks'
        names = [n for n in os.listdir(folder)
                 if os.path.exists(f'{folder}/{n}/upper')]
        return max(names, key=lambda n: os.stat(f'{folder}/{n}').st_mtime_ns,
                   default=None)

    def sides(self):
        """(source, layer); the layer is discarded then."""
        task, layer = self.newest(), {}
        if task:
            upper = f'{self.box.folder(task)}/upper'
            open_all(upper)
            layer = look(upper)
            self.box.pinfold('discard', '--yes', task).expect(0)
        return look(self.box.source), layer

    def judge(self):
        """None, or what is wrong after the next command."""
        if os.path.exists(f'{self.box.state}/promoting'):
            return 'the mark is left'
        source, layer = self.sides()
        if b'end' in source:
            self.whole += 1
            if (source, layer) != self.after:
                return f'source {source}, layer {layer}'
            return None
        self.cut += 1
        left = {p for p in source if is_held(p)} - KEPT
        if left or source[b'sub/.envrc'] != (stat.S_IFLNK, b'../real'):
            return f'left in the source: {sorted(left)} {source}'
        wrong = {p: w for p, w in layer.items() if w[1] and
                 w != self.after[1].get(p)}
        return f'in the layer: {wrong}' if wrong else None

    def try_kill(self, what, again=None):
        self.fresh()
        self.inject_into([box.PINFOLD, 'run', *self.words()], '-k',
                         ':'.join(map(str, what)))
        if again:
            self.inject_into([box.PINFOLD, 'diff'], '-k',
                             ':'.join(map(str, again)))
        self.box.pinfold('diff')
        why = self.judge()
        if why:
            self.failures.append(f'{what} {again or ""}: {why}')
            check(len(self.failures) < 4, ' | '.join(self.failures))

    def all_of(self, cases):
        for what in cases:
            self.try_kill(*what)
        if self.failures:
            raise Failure(' | '.join(self.failures))
        check(self.whole, 'no run was killed after its command')
        return (f'{len(cases)} calls: {self.whole} after all was written, '
                f'{self.cut} before')

    def calls_of(self, *words):
        r, lines = self.inject_into([box.PINFOLD, *words], '-l')
        check(r.status == 0, r)
        found = [line.split() for line in lines if line.startswith('count ')]
        return [(role, call, int(n)) for _, role, call, n in found
                if role.split('+')[0] in ROLES and call != 'execve']


def chosen(found, extra):
    every = [(role, call, n) for role, call, count in found
             for n in range(1, count + 1)]
    if ALL:
        return every
    moves = {c for c in every if c[0].startswith('front') and c[1] in (
        'renameat', 'renameat2', 'symlinkat', 'syncfs')}
    rest = [c for c in every if c not in moves]
    random.Random(SEED).shuffle(rest)
    return sorted(moves) + sorted(rest[:extra])


@case
def a_run_that_is_killed_at_any_call_is_ended_by_the_next_command(b):
    stand = Stand(b)
    stand.fresh()
    found = stand.calls_of('run', *stand.words())
    stand.sides()
    return stand.all_of([(c,) for c in chosen(found, EXTRA)])


@case
def one_that_ends_it_and_is_killed_is_ended_by_the_next(b):
    stand = Stand(b)
    stand.fresh()
    first = [c for c in chosen(stand.calls_of('run', *stand.words()), 0)
             if c[1] in ('renameat', 'renameat2')][-2:]
    stand.sides()
    stand.fresh()
    stand.inject_into([box.PINFOLD, 'run', *stand.words()], '-k',
                      ':'.join(map(str, first[0])))
    found = stand.calls_of('diff')
    stand.sides()
    return stand.all_of([(first[0], c) for c in chosen(found, 10)])


if __name__ == '__main__':
    # Another mount than the source's for root: what is moved is copied there.
    calls.private_mounts('/var/lib/pinfold')
    sys.exit(box.main())
