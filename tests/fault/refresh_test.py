#!/usr/bin/python3
# situations: user root* userns*
# limit: 1800 s
"""A refresh is killed at each of its system calls, and each of these fails once,
of its own and of the process that makes the view new.

Whatever happens the sandbox works, each file that it sees is the host's old or
new one or the task's own, and the next refresh succeeds. A promotion in the end
has all that the task did, and the same conflict; a change of the host's is never
replaced. A call that fails ends with 125 and a text, or did no harm.

`make check` takes the first and the last of each call and some by a fixed seed,
`make check-all` all of them.
"""
import errno
import json
import os
import random
import signal
import sys

import calls
from calls import ALL, SEED, box
from box import Failure, case, check, wait_for

EXTRA = 10
NOT_FAILED = {'exit', 'exit_group', 'rt_sigreturn', 'arch_prctl', 'getpid',
              'getppid', 'getuid', 'geteuid', 'getgid', 'getegid', 'gettid',
              'umask', 'set_tid_address', 'execve', 'brk'}
ERRORS = (errno.EIO, errno.ENOSPC)
OURS = {'front', 'front+1'}
NAMES = ('f', 'dir/g', 'dir/sub/h')
LOOK = f'cat {" ".join(NAMES)}; ls -R >/dev/null; cat n; true'


class Stand(calls.Stand):
    def __init__(self, b, mode):
        super().__init__(b)
        self.failures = []
        self.ended = self.refused = self.harmless = self.turn = 0
        for name in (*NAMES, 'mine', 'both'):
            b.write(name, 'host 0\n')
        self.task = b.start('--workspace', mode)
        self.sh('echo task >>mine; echo task >>both; echo task >own')
        self.save('both', 'host 1\n')
        self.text = {}
        self.move()

    def sh(self, script):
        return self.box.exec(self.task, '--', 'sh', '-c', script)

    def save(self, name, text):
        os.rename(self.box.write(f'{name}~', text),
                  f'{self.box.source}/{name}')

    def move(self):
        """The host changes what the sandbox has just looked at."""
        self.sh(LOOK)
        self.turn += 1
        for name in NAMES:
            self.save(name, f'host {self.turn}\n')
        if self.turn % 2:
            self.box.write('n', 'n\n')
        else:
            os.unlink(f'{self.box.source}/n')

    def seen(self, names):
        r = self.sh(f'cat {" ".join(names)}')
        check(r.status == 0, f'the sandbox does not work: {r}')
        return r.out.decode().splitlines()

    def wrong(self):
        for name, text in zip(NAMES, self.seen(NAMES)):
            if text not in (f'host {self.turn}', f'host {self.turn - 1}'):
                return f'{name} is {text!r} at {self.turn}'
        own = self.seen(('mine', 'both', 'own'))
        if own != ['host 0', 'task', 'host 0', 'task', 'task']:
            return f'the task has {own}'
        return None

    def settled(self):
        r = self.run('refresh', '--json')
        if r.status != 1:
            return f'the next refresh: {r}'
        found = [c['path'] for c in json.loads(r.out)['conflicts']]
        if found != ['both']:
            return f'conflicts {found}'
        if self.seen(NAMES) != [f'host {self.turn}'] * 3:
            return f'the next refresh shows {self.seen(NAMES)}'
        return None

    def judge(self, name, why):
        try:
            why = why or self.wrong() or self.settled()
        except box.Failure as e:
            why = str(e)
        if why:
            self.failures.append(f'{name}: {why}')
        self.move()

    def kill(self, what):
        name = ':'.join(map(str, what))
        self.inject('-k', name, 'refresh')
        self.ended += 1
        # The keeper learns of a client's end in its next turn.
        wait_for(lambda: self.sh('true').status == 0, 10, 'the next command')
        self.judge(name, None)

    def fail(self, what):
        name = ':'.join(map(str, what))
        r, _ = self.inject('-e', name, 'refresh')
        why = None
        if r.status not in (0, 1, 125):
            why = f'status {r.status}: {r}'
        elif r.status == 125 and not r.text().startswith('pinfold: '):
            why = f'nothing is said: {r}'
        elif r.status != 125 and self.seen(NAMES) != \
                [f'host {self.turn}'] * 3:
            why = f'it said that all was well: {r}'
        self.refused += r.status == 125
        self.harmless += r.status != 125
        self.judge(name, why)

    def calls(self):
        r, lines = self.inject('-l', None, 'refresh')
        r.expect(1)
        self.move()
        found = [line.split() for line in lines if line.startswith('count ')]
        check({role for _, role, _, _ in found} >= OURS, found)
        return [(role, call, int(n)) for _, role, call, n in found
                if call not in NOT_FAILED and role in OURS]

    def promotes(self):
        """In the end nothing of either side is lost."""
        self.run('refresh').expect(1)
        self.sh('echo task >>f').expect(0)
        self.run('stop').expect(0)
        self.box.started.remove(self.task)
        r = self.run('promote', '--yes', '--json').expect(1)
        found = {c['path']: c['result']
                 for c in json.loads(r.out)['changes']}
        check(found == {'both': 'conflict', 'f': 'promoted',
                        'mine': 'promoted', 'own': 'promoted'}, found)
        for name, text in (('f', f'host {self.turn}\ntask\n'),
                           ('both', 'host 1\n'), ('own', 'task\n'),
                           ('dir/g', f'host {self.turn}\n')):
            with open(f'{self.box.source}/{name}', encoding='ascii') as f:
                got = f.read()
            check(got == text, f'{name} is {got!r}')

    def all_of(self, cases, function):
        for what in cases:
            function(what)
            if len(self.failures) > 5:
                break
        if self.failures:
            raise Failure(f'{len(self.failures)} of {len(cases)}: ' +
                          ' | '.join(t[:600] for t in self.failures[:5]))
        self.promotes()
        return f'{len(cases)} calls' + (
            f': {self.refused} refused, {self.harmless} harmless'
            if self.refused + self.harmless else '')


def chosen(found):
    every = [(role, call, n) for role, call, count in found
             for n in range(1, count + 1)]
    if ALL:
        return every
    ends = {(role, call, n) for role, call, count in found
            for n in (1, count)}
    rest = [c for c in every if c not in ends]
    random.Random(SEED).shuffle(rest)
    return sorted(ends) + sorted(rest[:EXTRA])


def with_errors(cases):
    return [(*c, ERRORS[sum(map(ord, c[1])) % len(ERRORS)]) for c in cases]


@case
def a_refresh_of_an_overlay_that_is_killed_at_any_call(b):
    stand = Stand(b, 'overlay')
    return stand.all_of(chosen(stand.calls()), stand.kill)


@case
def a_refresh_of_a_copy_that_is_killed_at_any_call(b):
    stand = Stand(b, 'copy')
    return stand.all_of(chosen(stand.calls()), stand.kill)


@case
def a_call_of_a_refresh_of_an_overlay_that_fails(b):
    stand = Stand(b, 'overlay')
    return stand.all_of(with_errors(chosen(stand.calls())), stand.fail)


@case
def a_call_of_a_refresh_of_a_copy_that_fails(b):
    stand = Stand(b, 'copy')
    return stand.all_of(with_errors(chosen(stand.calls())), stand.fail)


@case
def a_keeper_that_dies_while_a_view_is_made_new_loses_nothing(b):
    """Its task is over; what it did is promoted, and the host's is kept."""
    for call in ('setns', 'fsconfig', 'futimens', 'rename'):
        for name in ('f', 'g'):
            b.write(name, 'old\n')
        task = b.start('--workspace', 'overlay')
        b.exec(task, '--', 'sh', '-c', 'cat f g; echo task >>g').expect(0)
        os.rename(b.write('f~', 'host\n'), f'{b.source}/f')
        keeper = [p for p in box.processes_with(task)
                  if box.command_of(p) == 'pinfold-keeper']
        trace = f'{b.top}/trace'
        if os.path.exists(trace):
            os.unlink(trace)
        names = {'futimens': 'utimensat', 'rename': 'sendmsg'}
        real = names.get(call, call)
        process = b.spawn(['strace', '-f', '-qq', '-o', trace, '-e',
                           f'trace=pidfd_open,memfd_create,{real}', '-e',
                           f'inject={real}:delay_enter=2000000:when=1',
                           box.PINFOLD, 'refresh', task])
        wait_for(lambda: os.path.exists(trace) and os.path.getsize(trace), 20,
                 'the beginning')
        os.kill(keeper[0], signal.SIGKILL)
        check(b.finish(process).status in (1, 125), 'all is well')
        b.pinfold('ps')
        b.started.remove(task)
        r = b.pinfold('promote', '--yes', task)
        check(r.status == 0, r)
        for name, text in (('f', 'host\n'), ('g', 'old\ntask\n')):
            with open(f'{b.source}/{name}', encoding='ascii') as f:
                check(f.read() == text, f'{call}: {name}')


if __name__ == '__main__':
    sys.exit(box.main())
