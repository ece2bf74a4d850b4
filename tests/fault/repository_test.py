#!/usr/bin/python3
# situations: user root*
# limit: 600 s
"""A promotion of what was committed, and its undo, killed at calls of theirs:
the repository is valid at once, without a word of pinfold's; and one side or
the other, without a lock, after the next command."""
import os
import random
import sys

import calls
from calls import ALL, SEED, box
from box import Failure, case, check
from repository import git, plant, sound, values, work

SOME = 8
CHANGE = r'''
    echo 2 >>a; git commit -qam second; rm b; git add -A; git commit -qm third
    git checkout -q -b topic/new; echo n >new; git add new; git commit -qm new
    git branch -D packed; git branch -D loose; git branch -f other
    echo dirty >>c; git stash -q; git tag mark; echo left >untracked
'''


class Stand(calls.Stand):
    def __init__(self, b):
        super().__init__(b)
        plant(b)
        git(b, 'branch', 'packed')
        git(b, 'pack-refs', '--all')
        git(b, 'branch', 'loose')
        git(b, 'branch', 'other')
        self.before = self.look()
        self.task = work(b, CHANGE, '--json').json()['id']
        self.run('promote', '--yes').expect(0)
        self.after = self.look()
        check(self.after != self.before, 'nothing was promoted')
        self.run('undo').expect(0)
        check(self.look() == self.before, 'the undo is not one')
        self.ends = {'before': 0, 'after': 0}

    def look(self):
        """What is in the repository and beside it."""
        top, files = self.box.source, {}
        for name in sorted(os.listdir(top)):
            if os.path.isfile(f'{top}/{name}'):
                with open(f'{top}/{name}', 'rb') as f:
                    files[name] = f.read()
        return values(self.box), files, git(self.box, 'status', '--short')

    def cases(self, *words):
        """All renames, which are the steps, or some; and some other calls."""
        steps, others = [], []
        for role, call, count in self.counts(*words):
            if role == 'git' or call in ('exit', 'exit_group'):
                continue
            to = steps if call in ('renameat2', 'renameat') else others
            to += [f'{role}:{call}:{n + 1}' for n in range(count)]
        if not ALL:
            chance = random.Random(SEED)
            steps = chance.sample(steps, min(SOME, len(steps)))
            others = chance.sample(others, min(SOME // 2, len(others)))
        return steps + others

    def valid(self, what):
        """Before anybody has repaired anything."""
        git(self.box, 'fsck', '--strict', '--no-dangling')
        names = git(self.box, 'for-each-ref', '--format=%(refname)')
        for name in names.split('\n'):
            git(self.box, 'rev-list', '--objects', '--quiet', name)
        git(self.box, 'ls-files', '--stage')
        check(git(self.box, 'rev-parse', '-q', '--verify', 'HEAD'), what)

    def kill_at(self, cases, from_after, *words):
        for what in cases:
            if from_after:
                self.run('promote', '--yes').expect(0)
            self.inject('-k', what, *words)
            self.valid(what)
            self.run('diff')
            now = self.look()
            sound(self.box)
            if now == self.after:
                self.ends['after'] += 1
                self.run('undo').expect(0)
            elif now == self.before:
                self.ends['before'] += 1
            else:
                raise Failure(f'{what}: neither side: {now}')
            check(self.look() == self.before, f'{what}: not taken back')
        return (f'{len(cases)} calls: {self.ends["after"]} ended after, '
                f'{self.ends["before"]} before')


@case
def a_promotion_of_commits_killed_at_a_call_leaves_a_valid_repository(b):
    stand = Stand(b)
    cases = stand.cases('promote', '--yes')
    stand.run('undo').expect(0)
    return stand.kill_at(cases, False, 'promote', '--yes')


@case
def an_undo_of_commits_killed_at_a_call_leaves_a_valid_repository(b):
    stand = Stand(b)
    stand.run('promote', '--yes').expect(0)
    cases = stand.cases('undo')
    return stand.kill_at(cases, True, 'undo')


if __name__ == '__main__':
    calls.private_mounts('/var/lib/pinfold')
    sys.exit(box.main())
