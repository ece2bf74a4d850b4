#!/usr/bin/python3
# situations: root user
# limit: 600 s
"""What an agent may leave in a repository to harm the host: forged objects and
names, bombs, links out of it, and a host that is at work meanwhile."""
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import PINFOLD, ROOT, Skip, case, check, equal, main, within
from repository import git, plant, promote, result, sound, told, work


@case
def other_kinds_of_references_and_bad_names_stay(box):
    plant(box)
    head = git(box, 'rev-parse', 'HEAD')
    work(box, f'''mkdir -p .git/refs/replace .git/refs/remotes/origin
        echo {head} >.git/refs/replace/{head}
        echo {head} >.git/refs/remotes/origin/main
        echo {head} >.git/refs/heads/a..b; echo {head} >".git/refs/heads/x y"
        ln -s ../../HEAD .git/refs/heads/link
        echo 'ref: refs/heads/main' >.git/refs/heads/symbolic
        echo rubbish >.git/refs/heads/rubbish; echo >.git/refs/heads/x.lock
        mkdir -p .git/refs/heads/pipe; mkfifo .git/refs/heads/pipe/p
        printf '%s\\n' {head} >".git/refs/heads/$(printf 'esc\\033[2J')"''')
    found = told(box, status=1)
    equal(result(found, f'refs/replace/{head}')[0], 'held back')
    equal(result(found, 'refs/remotes/origin/main')[0], 'held back')
    for name in ('a..b', 'x y', 'link', 'symbolic', 'rubbish', 'pipe/p'):
        equal(result(found, f'refs/heads/{name}')[0], 'refused', name)
    equal(git(box, 'for-each-ref', '--format=%(refname)'), 'refs/heads/main')
    out = promote(box, status=1).out
    check(b'\033' not in out, out)
    sound(box)


# Objects that no honest git would have written.
FORGE = r'''
import hashlib, os, subprocess, sys, zlib
def loose(name, data):
    d = f'.git/objects/{name[:2]}'
    os.makedirs(d, exist_ok=True)
    with open(f'{d}/{name[2:]}', 'wb') as f:
        f.write(zlib.compress(data))
    return name
def obj(kind, data):
    whole = b'%s %d\0' % (kind, len(data)) + data
    return loose(hashlib.sha1(whole).hexdigest(), whole)
def ref(name, value):
    with open(f'.git/refs/heads/{name}', 'w') as f:
        f.write(value + '\n')
def tree(*entries):
    return obj(b'tree', b''.join(
        m + b' ' + n + b'\0' + bytes.fromhex(i) for m, n, i in entries))
def commit(tree, who=b'A <a@b> 1 +0000'):
    return obj(b'commit', b'tree %s\nauthor %s\ncommitter %s\n\nx\n' %
               (tree.encode(), who, who))
blob = obj(b'blob', b'#!/bin/sh\n')
'''
FORGED = {
    'git': 'ref("git", commit(tree((b"40000", b".git", tree('
           '(b"100644", b"config", blob))))))',
    'case': 'ref("case", commit(tree((b"40000", b".GIT", tree('
            '(b"100644", b"config", blob))))))',
    'dots': 'ref("dots", commit(tree((b"40000", b"..", tree('
            '(b"100644", b"x", blob))))))',
    'slash': 'ref("slash", commit(tree((b"100644", b"a/b", blob))))',
    'twice': 'ref("twice", commit(tree((b"100644", b"a", blob), '
             '(b"100644", b"a", blob))))',
    'who': 'ref("who", commit(tree((b"100644", b"a", blob)), b"nobody"))',
    'missing': 'ref("missing", commit(tree((b"100644", b"a", "12" * 20))))',
    'absent': 'ref("absent", "ab" * 20)',
    'kind': 'ref("kind", blob)',
    'hash': 'ref("hash", loose("cd" * 20, b"commit 0\\0"))',
    'other': 'c = commit(tree((b"100644", b"a", blob))); '
             'ref("other", loose("ce" * 20, zlib.decompress('
             'open(f".git/objects/{c[:2]}/{c[2:]}", "rb").read())))',
    'short': 'c = commit(tree((b"100644", b"s", blob))); '
             'open(f".git/objects/{c[:2]}/{c[2:]}", "r+b").truncate(20); '
             'ref("short", c)',
    'links': 'ref("links", commit(tree((b"120000", b".gitmodules", blob))))',
}


@case
def forged_objects_are_refused_one_by_one_and_the_rest_comes(box):
    plant(box)
    script = FORGE + '\n'.join(FORGED.values())
    with open(f'{box.source}/forge.py', 'w', encoding='ascii') as f:
        f.write(script)
    work(box, 'python3 forge.py; git branch fine main; '
              'git checkout -q fine; echo x >>a; git commit -qam fine')
    found = told(box, status=1)
    for name in FORGED:
        equal(result(found, f'refs/heads/{name}')[0], 'refused', name)
        check(result(found, f'refs/heads/{name}')[1], name)
    equal(result(found, 'refs/heads/fine')[0], 'promoted')
    equal(git(box, 'log', '--format=%s'), 'fine\nfirst')
    sound(box)


@case
def objects_that_are_no_files_or_lie_elsewhere_are_refused(box):
    for how, text in (
            ('mkfifo .git/objects/ff/' + 'f' * 38, 'is no file'),
            ('ln -s /etc/passwd .git/objects/ff/' + 'f' * 38, 'is no file'),
            ('ln -s . .git/objects/ff/loop', 'is no file')):
        subprocess.run(['rm', '-rf', box.source], check=True)
        os.mkdir(box.source)
        plant(box)
        work(box, 'git commit -q --allow-empty -m two; '
                  'mkdir -p .git/objects/ff; ' + how)
        found = told(box, status=1)
        equal(result(found, 'refs/heads/main')[0], 'refused', how)
        within(result(found, 'refs/heads/main')[1], text)
        sound(box)
    # Elsewhere: the directory itself is a link, or others are named.
    subprocess.run(['git', 'init', '-q', f'{box.home}/private'], check=True,
                   env=box.env)
    secret = git(box, 'hash-object', '-w', '--stdin', data=b'secret',
                 cwd=f'{box.home}/private')
    work(box, f'''mv .git/objects .git/o; ln -s o .git/objects
        git commit -q --allow-empty -m three; rm .git/objects
        mv .git/o .git/objects; mkdir -p .git/objects/info
        echo {box.home}/private/.git/objects >.git/objects/info/alternates
        t=$(printf '100644 blob {secret}\\tx\\n' | git mktree --missing)
        git branch stolen "$(git commit-tree -m x $t)"''')
    found = told(box, status=1)
    equal(result(found, 'refs/heads/stolen')[0], 'refused')
    equal(result(found, 'objects/info/alternates')[0], 'held back')
    git(box, 'cat-file', '-e', secret, status=None)
    sound(box)


BOMBS = r'''
import hashlib, os, struct, subprocess, zlib
def entry(kind, size, data):
    head, size = bytearray([kind << 4 | size & 15]), size >> 4
    while size:
        head[-1] |= 128
        head.append(size & 127)
        size >>= 7
    return bytes(head) + data
def size_of(n):
    out = bytearray()
    while True:
        out.append(n & 127 | (128 if n >> 7 else 0))
        n >>= 7
        if not n:
            return bytes(out)
def pack(entries):
    body = b'PACK' + struct.pack('>II', 2, len(entries)) + b''.join(entries)
    return body + hashlib.sha1(body).digest()
'''


@case
def a_delta_that_claims_more_than_there_is_memory_is_refused(box):
    plant(box)
    with open(f'{box.source}/bomb.py', 'w', encoding='ascii') as f:
        f.write(BOMBS + r'''
base = b'x' * 100
delta = size_of(100) + size_of(1 << 40) + b'\x90\x64'
first = entry(3, len(base), zlib.compress(base))
second = entry(6, len(delta), bytes([len(first)]) + zlib.compress(delta))
p = pack([first, second])
oids = [hashlib.sha1(b'blob 100\0' + base).digest(), b'\xee' * 20]
offsets = {oids[0]: 12, oids[1]: 12 + len(first)}
oids.sort()
i = b'\xfftOc' + struct.pack('>I', 2)
for n in range(256):
    i += struct.pack('>I', sum(o[0] <= n for o in oids))
i += b''.join(oids) + b'\0' * 8
i += b''.join(struct.pack('>I', offsets[o]) for o in oids)
i += p[-20:]
i += hashlib.sha1(i).digest()
name = '.git/objects/pack/pack-' + p[-20:].hex()
open(name + '.pack', 'wb').write(p)
open(name + '.idx', 'wb').write(i)
t = subprocess.run(['git', 'mktree', '--missing'], check=True,
                   input=b'100644 blob %s\tbig\n' % (b'ee' * 20),
                   capture_output=True).stdout.decode().strip()
c = subprocess.run(['git', 'commit-tree', '-m', 'x', t], check=True,
                   capture_output=True).stdout.decode().strip()
open('.git/refs/heads/delta', 'w').write(c + '\n')
''')
    work(box, 'python3 bomb.py; git commit -q --allow-empty -m two')
    found = told(box, status=1)
    equal(result(found, 'refs/heads/delta')[0], 'refused')
    equal(result(found, 'refs/heads/main')[0], 'promoted')
    sound(box)
    return result(found, 'refs/heads/delta')[1][:60]


@case
def an_object_that_unpacks_to_more_than_a_gibibyte_is_refused(box):
    if os.environ.get('PINFOLD_ALL') != '1':
        raise Skip('half a minute: with --all')
    plant(box)
    with open(f'{box.source}/bomb.py', 'w', encoding='ascii') as f:
        f.write(r'''
import hashlib, os, zlib
block, h, z = bytes(1 << 20), hashlib.sha1(), zlib.compressobj(1)
head = b'blob %d\0' % (1100 << 20)
h.update(head)
data = z.compress(head)
for _ in range(1100):
    h.update(block)
    data += z.compress(block)
data += z.flush()
name = h.hexdigest()
os.makedirs(f'.git/objects/{name[:2]}', exist_ok=True)
open(f'.git/objects/{name[:2]}/{name[2:]}', 'wb').write(data)
print(name)
''')
    work(box, '''big=$(python3 bomb.py)
        t=$(printf '100644 blob %s\\tbig\\n' $big | git mktree --missing)
        git branch bomb $(git commit-tree -m x $t)
        git commit -q --allow-empty -m two''')
    found = told(box, status=1)
    within(result(found, 'refs/heads/bomb')[1], '1 GiB')
    equal(result(found, 'refs/heads/main')[0], 'promoted')
    sound(box)


@case
def what_files_deny_hides_is_not_deleted_by_a_commit(box):
    """What the task does not see git inside takes for removed."""
    plant(box)
    policy = f'{box.top}/deny.yaml'
    for deny in ('dir', 'dir/d', '**/d'):
        with open(policy, 'w', encoding='ascii') as f:
            f.write('version: 1\nextends: offline\n'
                    f'files: {{deny: ["{deny}"]}}\n')
        work(box, 'echo n >>a; git add -A; git commit -qm agent', '--policy',
             policy)
        found = told(box)
        state, why = result(found, 'refs/heads/main')
        equal(state, 'held back', deny)
        within(why, 'its commits change "dir/d": files.deny hides it', deny)
        git(box, 'checkout', '-q', '.')
        equal(git(box, 'status', '--porcelain'), '', deny)
        box.pinfold('discard', '--yes').expect(0)


@case
def names_that_git_makes_for_nobody_stay_out(box):
    plant(box)
    work(box, """h=$(git commit-tree -p HEAD -m z HEAD^{tree})
        mkdir -p .git/refs/tags
        for r in heads/HEAD heads/--upload-pack=x heads/-d tags/-d tags/HEAD \
            heads/FETCH_HEAD tags/ORIG_HEAD tags/fine heads/a-d; do
            echo $h >.git/refs/$r; done""")
    found = told(box, status=1)
    for name in ('heads/HEAD', 'heads/--upload-pack=x', 'heads/-d', 'tags/-d',
                 'tags/HEAD', 'heads/FETCH_HEAD', 'tags/ORIG_HEAD'):
        within(result(found, f'refs/{name}')[1], 'no reference by such a name')
    for name in ('tags/fine', 'heads/a-d'):
        equal(result(found, f'refs/{name}')[0], 'promoted')
    sound(box)


@case
def a_new_name_that_means_another_one_of_the_host_is_held_back(box):
    plant(box)
    git(box, 'branch', 'topic')
    git(box, 'tag', 'v1')
    for name in ('refs/remotes/origin/main', 'refs/remotes/packed/main'):
        git(box, 'update-ref', name, 'HEAD')
    git(box, 'pack-refs', '--all')
    git(box, 'update-ref', 'refs/remotes/origin/main', 'HEAD')
    git(box, 'symbolic-ref', 'refs/remotes/origin/HEAD',
        'refs/remotes/origin/main')
    shadows = {'tags/main': 'refs/heads/main', 'tags/topic': 'refs/heads/topic',
               'heads/v1': 'refs/tags/v1',
               'tags/origin/main': 'refs/remotes/origin/main',
               'heads/packed/main': 'refs/remotes/packed/main',
               'heads/origin': 'refs/remotes/origin/HEAD',
               'heads/remotes/packed/main': 'refs/remotes/packed/main',
               'tags/heads/main': 'refs/heads/main',
               'heads/refs/heads/main': 'refs/heads/main'}
    task = work(box, 'h=$(git commit-tree -p HEAD -m z HEAD^{tree}); '
                'for r in tags/other ' + ' '.join(shadows) + '; do '
                'mkdir -p $(dirname .git/refs/$r); echo $h >.git/refs/$r; '
                'done', '--json').json()['id']
    before = git(box, 'rev-parse', 'origin/main', 'main', 'packed/main')
    found = told(box, task)
    for name, other in shadows.items():
        equal(result(found, f'refs/{name}')[0], 'held back', name)
        within(result(found, f'refs/{name}')[1], f'or "{other}", which the '
               'host has', name)
    equal(result(found, 'refs/tags/other')[0], 'promoted')
    equal(git(box, 'rev-parse', 'origin/main', 'main', 'packed/main'), before)
    promote(box, task, '--held', '.git/refs/tags/topic')
    equal(git(box, 'tag'), 'other\ntopic\nv1')
    sound(box)


RUINS = {
    'refs': ('mv .git/refs r; ln -s ../r .git/refs; {commit}', 'no directory'),
    'packed-refs': ('{commit}; git pack-refs --all; mv .git/packed-refs p; '
                    'ln -s ../p .git/packed-refs', 'none that git wrote'),
    'HEAD': ('{commit}; cp .git/HEAD h; rm .git/HEAD; ln -s ../h .git/HEAD',
             'it is no file'),
    'index': ('{commit}; mv .git/index i; ln -s ../i .git/index',
              'it is no file'),
    'refs/heads': ('mv .git/refs/heads h; ln -s ../../h .git/refs/heads; '
                   '{commit}', 'it is no file'),
    'refs/heads/main': ('{commit}; cp .git/refs/heads/main m; '
                        'rm .git/refs/heads/main; '
                        'ln -s ../../../m .git/refs/heads/main',
                        'it is no file'),
}


@case
def what_a_task_makes_unreadable_of_its_repository_is_named(box):
    commit = 'echo 2 >>a; git commit -qam two'
    for name, (script, why) in RUINS.items():
        for mode in ('overlay', 'copy'):
            subprocess.run(['rm', '-rf', box.source], check=True)
            os.mkdir(box.source)
            plant(box)
            if name == 'packed-refs':
                git(box, 'pack-refs', '--all')
            time.sleep(0.02)
            work(box, script.format(commit=commit), '--workspace', mode)
            found = told(box, status=1)
            equal(result(found, name)[0], 'refused', f'{name} {mode}')
            within(result(found, name)[1], why, f'{name} {mode}')
            sound(box)
    subprocess.run(['rm', '-rf', box.source], check=True)
    os.mkdir(box.source)
    plant(box)
    work(box, commit + '; rm -rf .git/refs')
    found = told(box, status=1)
    within(result(found, 'refs')[1], 'the task removed it')
    equal(git(box, 'log', '--format=%s'), 'first')
    # All branches, the one that is checked out among them.
    git(box, 'branch', 'other')
    time.sleep(0.02)
    work(box, 'rm -rf .git/refs/heads')
    found = told(box, status=1)
    equal(result(found, 'refs/heads/main'),
          ('conflict', 'the host has it checked out'))
    equal(result(found, 'refs/heads/other')[0], 'promoted')
    sound(box)


def offer(box, path='.envrc'):
    """What somebody offered and the host has fetched: it has the commits, and
    has never checked them out."""
    plant(box)
    git(box, 'checkout', '-q', '-b', 'pr')
    box.write(path, 'evil')
    git(box, 'add', '-f', path)
    git(box, 'commit', '-q', '-m', 'pr')
    git(box, 'update-ref', 'refs/remotes/origin/pr', 'pr')
    git(box, 'checkout', '-q', 'main')
    git(box, 'branch', '-q', '-D', 'pr')
    time.sleep(0.02)


def nothing_came(box, path='.envrc'):
    equal(git(box, 'ls-files', path), '')
    git(box, 'checkout', '-q', '.')
    check(not os.path.exists(f'{box.source}/{path}'), path)
    sound(box)


@case
def a_commit_that_the_host_has_already_brings_nothing_protected(box):
    for script, name in (
            ('git reset -q --hard origin/pr', 'refs/heads/main'),
            ('git merge -q origin/pr', 'refs/heads/main'),
            ('git merge -q --no-ff -m m origin/pr', 'refs/heads/main'),
            ('git branch fix origin/pr', 'refs/heads/fix'),
            ('git tag fix origin/pr', 'refs/tags/fix'),
            ('git tag -a -m fix fix origin/pr', 'refs/tags/fix'),
            ('git update-ref refs/heads/main origin/pr', 'refs/heads/main'),
            ('git checkout -q --detach origin/pr', 'HEAD')):
        subprocess.run(['rm', '-rf', box.source], check=True)
        os.mkdir(box.source)
        offer(box)
        task = work(box, script, '--json').json()['id']
        found = told(box, task)
        state, why = result(found, name)
        equal(state, 'held back', script)
        within(why, 'checked out, it changes ".envrc": ', script)
        nothing_came(box)
        # Who asks for it by name has seen what it brings.
        found = told(box, task, '--held', f'.git/{name}', '--only',
                     f'.git/{name}')
        equal(result(found, name)[0], 'promoted', script)


@case
def what_the_policy_protects_or_hides_does_not_come_by_an_old_commit(box):
    for field, text in (('protect', 'files.protect'), ('deny', 'files.deny')):
        subprocess.run(['rm', '-rf', box.source], check=True)
        os.mkdir(box.source)
        offer(box, 'ci/run')
        policy = f'{box.top}/own.yaml'
        with open(policy, 'w', encoding='ascii') as f:
            f.write('version: 1\nextends: offline\n'
                    f'files: {{{field}: ["ci/**"]}}\n')
        task = work(box, 'git reset -q --soft origin/pr', '--policy', policy,
                    '--json').json()['id']
        state, why = result(told(box, task), 'refs/heads/main')
        equal(state, 'held back', field)
        within(why, f'"ci/run": {text}')
        nothing_came(box, 'ci/run')


@case
def a_merge_does_not_revive_what_the_host_took_away(box):
    plant(box)
    box.write('.envrc', 'evil')
    git(box, 'add', '.')
    git(box, 'commit', '-q', '-m', 'with')
    git(box, 'rm', '-q', '.envrc')
    git(box, 'commit', '-q', '-m', 'without')
    time.sleep(0.02)
    # The tree is that of one of its sides, so it adds nothing to both.
    work(box, """m=$(git commit-tree -p HEAD -p HEAD~1 -m m HEAD~1^{tree})
        git reset -q --hard $m; git branch other HEAD^1
        git branch -f revived $m""")
    found = told(box)
    for name in ('main', 'revived'):
        equal(result(found, f'refs/heads/{name}')[0], 'held back', name)
        within(result(found, f'refs/heads/{name}')[1], '".envrc"', name)
    equal(result(found, 'refs/heads/other')[0], 'promoted')
    nothing_came(box)


@case
def a_head_on_another_branch_of_the_host_brings_nothing_protected(box):
    offer(box)
    git(box, 'branch', 'local', 'origin/pr')
    time.sleep(0.02)
    work(box, 'git checkout -q local')
    found = told(box)
    equal(result(found, 'HEAD')[0], 'held back')
    within(result(found, 'HEAD')[1], 'checked out, it changes ".envrc": ')
    equal(git(box, 'symbolic-ref', 'HEAD'), 'refs/heads/main')
    nothing_came(box)


@case
def an_entry_of_the_stash_brings_nothing_protected(box):
    offer(box)
    # One of the host's own holds such a file, and that is the host's.
    box.write('.vscode/tasks.json', '{}')
    git(box, 'stash', '-q', '-u')
    time.sleep(0.02)
    work(box, 'echo 2 >>a; git stash -q')
    equal(result(told(box), 'refs/stash')[0], 'promoted')
    work(box, """w=$(git commit-tree -p HEAD -p origin/pr -m w origin/pr^{tree})
        git stash store -m w $w""")
    found = told(box)
    equal(result(found, 'refs/stash')[0], 'held back')
    within(result(found, 'refs/stash')[1], '".envrc"')
    equal(len(git(box, 'stash', 'list').splitlines()), 2)
    sound(box)


@case
def a_disk_that_is_full_is_no_fault_of_what_was_committed(box):
    """Neither the commit nor the files that belong to it come."""
    if not ROOT:
        raise Skip('only root mounts a small disk where it works')
    plant(box)
    task = 'head -c 3000000 /dev/urandom >big; git add big; ' \
           'git commit -qm big; rm big; echo f >f'
    # One in which not even the first copy fits, and one in which that does.
    for size in ('2m', '5m'):
        r = box.finish(box.spawn([
            'unshare', '--mount', '--', 'sh', '-ec', f"""
            mount -t tmpfs -o size={size} tmpfs {box.source}
            cd {box.source}; git init -q; git commit -q --allow-empty -m first
            sleep 0.02; '{PINFOLD}' run -q -- sh -ec '{task}'
            '{PINFOLD}' promote --yes || echo status $?
            echo *; git log --format=%s; git status --short"""]))
        r.expect(0, out=b'status 125\n*\nfirst\n',
                 text='cannot look at what was committed: git says: ')


@case
def more_references_than_anybody_reads_are_refused(box):
    plant(box)
    work(box, 'h=$(git rev-parse HEAD); for i in $(seq 1200); do '
              'echo $h >.git/refs/heads/b$i; done; echo 2 >>a')
    found = told(box, status=1)
    # Which ones are told depends on the order in which they lie there.
    reasons = {c['reason'] for path, c in found.items()
               if path.startswith('.git/refs/heads/b')}
    equal(reasons, {'the task changed more than 1000 references'})
    equal(found['a']['result'], 'promoted')
    equal(git(box, 'branch', '--format=%(refname:short)'), 'main')


@case
def a_host_at_work_meanwhile_is_never_overwritten(box):
    plant(box)
    work(box, 'for i in $(seq 8); do echo $i >>a; git commit -qam $i; '
              'git branch b$i; done')
    stop = threading.Event()

    def race():
        n = 0
        while not stop.is_set():
            n += 1
            subprocess.run(['git', 'update-ref', 'refs/heads/main',
                            'HEAD~0'], cwd=box.source, env=box.env,
                           check=False, capture_output=True)
            subprocess.run(['git', 'commit', '-q', '--allow-empty', '-m',
                            f'host {n}'], cwd=box.source, env=box.env,
                           check=False, capture_output=True)
            subprocess.run(['git', 'status'], cwd=box.source, env=box.env,
                           check=False, capture_output=True)

    thread = threading.Thread(target=race)
    thread.start()
    try:
        r = box.pinfold('promote', '--yes')
    finally:
        stop.set()
        thread.join()
    check(r.status in (0, 1, 125), r)
    sound(box)
    # Every commit of the host is still part of its branch or its log.
    logged = git(box, 'log', '--format=%s', '-g', 'HEAD').split('\n')
    check(any(line.startswith('host ') for line in logged), logged)
    if r.status == 125:
        within(r.text(), '.git')


if __name__ == '__main__':
    sys.exit(main())
