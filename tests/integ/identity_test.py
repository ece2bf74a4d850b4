#!/usr/bin/python3
# limit: 120 s
"""Who a command is: inside, outside, with one id and with a range of them; and
what nesting permits."""
import os
import pwd
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import box as b
from box import ROOT, SITUATION, Skip, case, check, equal, main, within

SUBIDS = ('/etc/subuid', '/etc/subgid')
STATUS = 'cat /proc/self/uid_map; id -u; id -g'


def policy(box, text):
    path = f'{box.top}/policy.yaml'
    with open(path, 'w', encoding='utf-8') as f:
        f.write('version: 1\n' + text)
    return path


def entry(path, name):
    with open(path, encoding='utf-8') as f:
        for line in f:
            words = line.strip().split(':')
            if len(words) == 3 and words[0] == name:
                return int(words[1]), int(words[2])
    return None


class Range:
    """Subordinate ids for the caller: root's are lent for the test."""

    def __enter__(self):
        self.lent = False
        if SITUATION == 'userns':
            raise Skip('the maps of a user namespace are written from outside')
        name = 'pinfold' if ROOT else pwd.getpwuid(os.getuid()).pw_name
        if not ROOT and not shutil.which('newuidmap'):
            raise Skip('newuidmap is missing (package uidmap)')
        if not entry(SUBIDS[0], name):
            if not ROOT:
                raise Skip(f'{name} has no subordinate ids')
            self.lent = True
            for path in SUBIDS:
                with open(path, 'a', encoding='utf-8') as f:
                    f.write('pinfold:1000000000:65536\n')
        self.first, self.count = entry(SUBIDS[0], name)
        return self

    def __exit__(self, *_):
        for path in SUBIDS if self.lent else ():
            with open(path, encoding='utf-8') as f:
                kept = [x for x in f if x != 'pinfold:1000000000:65536\n']
            with open(path + '.test', 'w', encoding='utf-8') as f:
                f.writelines(kept)
            os.chmod(path + '.test', 0o644)
            os.rename(path + '.test', path)


@case
def a_command_is_one_unprivileged_user(box):
    r = box.sh(STATUS).expect(0)
    maps = [line.split() for line in r.out.decode().splitlines()]
    me = os.getuid() or 1000
    equal(int(maps[-2][0]), me, 'uid inside')
    equal(len(maps), 3, 'one line of map')
    equal(maps[0][0], str(me), 'inner id')
    equal(maps[0][2], '1', 'ids mapped')
    if ROOT:
        outer = int(maps[0][1])
        check(0x70000000 <= outer < 0x80000000, f'host id {outer}')


@case
def two_tasks_of_root_are_two_users(box):
    if not ROOT:
        raise Skip('an ordinary user is one user')
    ids = {box.sh('cat /proc/self/uid_map').out.split()[1] for _ in range(3)}
    equal(len(ids), 3, 'host ids of three tasks')


@case
def what_a_command_makes_belongs_to_it_inside(box):
    box.sh('echo x > made; test "$(stat -c %u made)" = "$(id -u)"').expect(0)


@case
def a_range_maps_a_whole_system_of_ids(box):
    with Range() as ids:
        r = box.run('--policy', policy(box, 'identity: range\n'), '--', 'sh',
                    '-c', STATUS + '; echo x > made; stat -c %u made')
        r.expect(0)
    lines = r.out.decode().splitlines()
    maps = [line.split() for line in lines if len(line.split()) == 3]
    check(sum(int(m[2]) for m in maps) >= 65536, f'{maps}')
    me = 1000 if ROOT else os.getuid()
    equal(lines[-3:], [str(me), lines[-2], str(me)], 'ids inside')
    if ROOT:
        equal(maps, [['0', str(ids.first), '65536']], 'the map')


@case
def a_range_changes_nothing_on_the_host(box):
    box.write('a.txt', 'before')
    before = b.tree_state(box.source)
    with Range():
        box.run('--policy', policy(box, 'identity: range\n'), '--', 'sh', '-c',
                'echo after > a.txt; mkdir d; chmod 700 d').expect(0)
    equal(b.tree_state(box.source), before, 'the source')


@case
def a_range_without_subordinate_ids_is_refused_with_the_line_to_add(box):
    name = 'pinfold' if ROOT else pwd.getpwuid(os.getuid()).pw_name
    if entry(SUBIDS[0], name) and SITUATION != 'userns':
        raise Skip(f'{name} has subordinate ids')
    r = box.run('--policy', policy(box, 'identity: range\n'), '--', 'true')
    r.expect(125)
    if SITUATION != 'userns':
        check(re.search(r'add the line: \S+:\d+:65536', r.text()), r.text())


@case
def nesting_lets_another_sandbox_run_inside(box):
    if not shutil.which('bwrap'):
        raise Skip('bwrap is missing (package bubblewrap)')
    inner = ['bwrap', '--ro-bind', '/', '/', '--unshare-user',
             '--unshare-pid', '--dev', '/dev', '--proc', '/proc', 'sh', '-c',
             'echo inner $$']
    box.run('--', *inner).expect(1)
    r = box.run('--policy', policy(box, 'nesting: true\n'), '--', *inner)
    within(r.expect(0).out, b'inner 2')


@case
def nesting_is_named_as_a_weakening(box):
    r = box.pinfold('policy', 'show', policy(box, 'nesting: true\n'))
    within(r.expect(0).text() + r.out.decode(), 'nesting')


if __name__ == '__main__':
    main()
