#!/usr/bin/python3
# situations: root user userns*
# limit: 1800 s
"""Every system call of a run's start and end fails once, and every process of
pinfold is killed at each of its calls.

Whatever fails, the run ends with 125 and a text, or the failure did no harm and
the command was confined in full, as it says itself (probe.c). Nothing hangs,
no process, mount, control group or socket stays, and no file but the record;
what only a next start can remove is gone after one.

Which calls there are is recorded first. `make check` takes the first and the
last of each and some more by a fixed seed, `make check-all` all of them with
two errors each.
"""
import errno
import os
import random
import shutil
import subprocess
import sys

import calls
from calls import ALL, BUILD, HANG_S, box
from box import Failure, case, check

PROBE = f'{BUILD}/tests/fault/probe'
SEED = 20240229
EXTRA = 40   # calls beyond the first and the last ones, by the seed
KILLS = 60   # calls to be killed at, by the seed
NAMESPACES = ('net', 'pid', 'mnt', 'user', 'ipc', 'uts', 'cgroup')
# A failure of these means nothing, or is the C library's own end before main.
NOT_FAILED = {'exit', 'exit_group', 'rt_sigreturn', 'restart_syscall', 'pause',
              'arch_prctl', 'getpid', 'getppid', 'getuid', 'geteuid', 'getgid',
              'getegid', 'gettid', 'umask', 'set_tid_address', 'sched_yield'}
ERRORS = {
    errno.ENOMEM: 'mmap brk munmap mprotect poll recvmsg landlock_add_rule',
    errno.EMFILE: 'open openat openat2 socket socketpair pipe2 fcntl dup2 dup3 '
                  'memfd_create pidfd_open signalfd4 fsopen open_tree',
    errno.EAGAIN: 'clone3 clone fork vfork execve execveat',
    errno.EIO: 'read write pwrite64 splice tee getdents64 fstat close lstat '
               'stat newfstatat readlink unlinkat lseek',
    errno.ENOBUFS: 'sendmsg',
    errno.ENOSPC: 'mkdirat mknodat symlinkat fsmount renameat',
    errno.EINVAL: 'fsconfig mount_setattr move_mount rt_sigaction '
                  'rt_sigprocmask',
}
SECOND_ERRORS = {
    errno.EINTR: 'read write poll recvmsg sendmsg wait4 splice tee flock open '
                 'openat',
    errno.EACCES: 'execve execveat mkdirat unlinkat openat2',
}


def error_of(call, table, otherwise):
    for number, names in table.items():
        if call in names.split():
            return number
    return otherwise


class Stand(calls.Stand):
    """One box with a probe, and what a run in it must leave."""

    def __init__(self, b):
        super().__init__(b)
        self.canary = b.top + '/canary'
        self.refused = self.harmless = self.missed = 0
        self.slowest = 0.0
        self.failures = []
        with open(self.canary, 'wb') as f:
            f.write(b'untouched')
        shutil.copy(PROBE, b.source + '/probe')
        b.env['PINFOLD_FAULT_SECRET'] = 'secret'
        self.command = [box.PINFOLD, 'run', '--', './probe', self.canary]
        self.command += [os.readlink(f'/proc/self/ns/{n}') for n in NAMESPACES]
        b.run('--', '/bin/true').expect(0)  # makes the state directory

    def inject(self, option, arg, *words):
        """(result, lines of the report), or (None, []) of what hangs."""
        options = [option, arg] if arg else [option]
        try:
            return self.inject_into(self.command, *options)
        except Failure:
            return None, []

    def calls(self):
        """[(role, call, how often)] of a run in which nothing fails."""
        found = [c for c in self.counts(out=b'confined\n') if c[1] not in NOT_FAILED]
        self.clean()
        check(len(found) > 100, f'{len(found)} calls')
        return found

    # ---- what may be left ----

    def ids(self):
        return os.listdir(f'{self.box.state}/tasks')

    def written(self, task):
        return os.path.exists(f'{self.box.folder(task)}/upper/written-inside')

    def left_files(self, may_keep):
        left = []
        for task in self.ids():
            names = {n for n in os.listdir(self.box.folder(task))
                     if not n.startswith('out.')}
            allowed = set(box.RECORD_FILES)
            if may_keep or self.written(task):
                allowed.update({'upper', 'manifest'})
            left += [f'{task[:6]}/{name}' for name in sorted(names - allowed)]
            left += self.box.cgroups(task)
        left += [f'live/{n}' for n in os.listdir(f'{self.box.state}/live')]
        if os.path.isdir(self.box.sockets):
            left += ['socket ' + n for n in os.listdir(self.box.sockets)]
        with open('/proc/self/mountinfo', encoding='utf-8') as f:
            left += ['mount ' + line.split()[4] for line in f
                     if '/tasks/t-' in line]
        return left

    def clean(self):
        for task in self.ids():
            folder = self.box.folder(task)
            subprocess.run(['chmod', '-R', 'u+rwX', folder], check=False)
            shutil.rmtree(folder, ignore_errors=True)

    # ---- one fault ----

    def judge(self, r, lines, killed):
        """Why it is wrong, or None."""
        if r is None:
            return f'hangs for {HANG_S} s'
        if 'hit' not in lines:
            self.missed += 1
        left = [line for line in lines if line.startswith('left ')]
        if left:
            return f'{", ".join(left)} after 10 s; {r}'
        if b'NOT CONFINED' in r.out:
            return str(r)
        if r.out not in (b'', b'confined\n'):
            return f'output is damaged: {r}'
        said = any(line.startswith('pinfold: ') and len(line) > 15
                   for line in r.text().splitlines())
        if r.status == 0:
            self.harmless += 1
            return None if r.out else f'output is lost: {r}'
        self.refused += 1
        if killed and r.status == 137:
            return None
        if r.status in (126, 127) and killed is None:
            return None if said else f'nothing is said: {r}'
        if r.status != 125:
            return f'not refused: {r}'
        return None if said else f'nothing is said: {r}'

    def outside(self):
        with open(self.canary, 'rb') as f:
            if f.read() != b'untouched':
                return 'the canary was touched'
        if os.listdir(self.box.source) != ['probe']:
            return f'the source has {os.listdir(self.box.source)}'
        return None

    def one(self, what, option, killed):
        role, call, nth, number = what
        name = arg = f'{role}:{call}:{nth}'
        if number:
            arg, name = f'{arg}:{number}', f'{name}:{errno.errorcode[number]}'
        if role.endswith('+1') and call == 'execve':
            killed = killed or None
        r, lines = self.inject(option, arg)
        why = self.judge(r, lines, killed) or self.outside()
        self.slowest = max(self.slowest, r.seconds if r else HANG_S)
        may_keep = r is not None and (r.out == b'confined\n' or
                                      'changed; pinfold diff' in r.text())
        left = self.left_files(may_keep)
        if not why and left and not killed and self.strict(call):
            why = f'left: {left[:6]}; {r}'
        if not why and (left or killed):
            # The next start takes away what is left.
            self.box.run('--', '/bin/true').expect(0)
            left = self.left_files(True)
            if left:
                why = f'left after the next start: {left[:6]}; {r}'
        if why:
            self.failures.append(f'{name}: {why}')
        self.clean()

    @staticmethod
    def strict(call):
        """Could a failure of call be the removal's own?"""
        return call not in ('unlinkat', 'openat', 'openat2', 'getdents64',
                            'fstat', 'newfstatat', 'fchmod', 'open', 'mmap',
                            'fcntl', 'close', 'wait4')

    def all_of(self, cases, option, killed=False):
        for what in cases:
            self.one(what, option, killed)
        if self.failures:
            raise Failure(f'{len(self.failures)} of {len(cases)}: ' +
                          ' | '.join(text[:400] for text in self.failures[:9]))
        return (f'{len(cases)} calls: {self.refused} refused, '
                f'{self.harmless} harmless, {self.missed} did not come, '
                f'slowest {self.slowest:.1f} s')


def chosen(found, extra):
    """First and last of each, and some by the seed; or all."""
    every = [(role, call, n) for role, call, count in found
             for n in range(1, count + 1)]
    if ALL:
        return every
    ends = {(role, call, n) for role, call, count in found
            for n in (1, count)} if extra else set()
    rest = [c for c in every if c not in ends]
    random.Random(SEED).shuffle(rest)
    return sorted(ends) + sorted(rest[:extra or KILLS])


def with_errors(cases):
    result = [(role, call, n, error_of(call, ERRORS, errno.EPERM))
              for role, call, n in cases]
    if ALL:
        result += [(role, call, n,
                    error_of(call, SECOND_ERRORS, errno.ENOSYS))
                   for role, call, n in cases]
    return result


def failing(b, belongs):
    stand = Stand(b)
    found = [c for c in stand.calls() if belongs(c[0])]
    return stand.all_of(with_errors(chosen(found, EXTRA)), '-e')


@case
def a_call_of_the_front_end_that_fails_ends_the_run_or_does_no_harm(b):
    return failing(b, lambda role: role.startswith('front'))


@case
def a_call_of_the_keeper_that_fails_ends_the_run_or_does_no_harm(b):
    return failing(b, lambda role: role.startswith(('keeper', 'watch')))


@case
def a_call_of_init_that_fails_ends_the_run_or_does_no_harm(b):
    return failing(b, lambda role: role.startswith('init'))


@case
def a_process_that_is_killed_at_any_call_leaves_nothing(b):
    stand = Stand(b)
    found = stand.calls()
    cases = [(*c, 0) for c in chosen(found, 0)]
    return stand.all_of(cases, '-k', killed=True)


if __name__ == '__main__':
    calls.private_mounts('/var/lib/pinfold', '/run/pinfold')
    sys.exit(box.main())
