#!/usr/bin/env python3
"""Files of the source that hold secrets: hidden without being listed, said at
the end, shown when they are granted; and what a policy's globs hide."""
import json
import os
import shutil
import subprocess
import sys
import time

from box import case, check, equal, main, within, Skip

GIT = shutil.which('git')
TOKEN = 'ghp_0123456789abcdef'


def plant(box):
    for name in ('.env', '.env.local', '.npmrc', 'a/credentials.json',
                 'a/b/server.key'):
        box.write(name, 'SECRET\n')
    box.write('.env.example', 'sample\n')
    box.write('a/b/c/.env', 'deep\n')
    box.write('plain', 'plain\n')


def policy(box, text):
    path = f'{box.top}/p.yaml'
    with open(path, 'w', encoding='ascii') as f:
        f.write(f'version: 1\n{text}\n')
    return path


@case
def secrets_of_the_source_are_not_there(box):
    plant(box)
    for mode in ('overlay', 'copy'):
        r = box.sh('grep -rl SECRET . ; cat plain .env.example a/b/c/.env; '
                   'ls -A a/b; ! cat .env', '--workspace', mode).expect(0)
        equal(r.out, b'plain\nsample\ndeep\nc\n', mode)
        within(r.text(), 'pinfold: 5 files that may hold secrets were hidden '
               f'(.env, .env.local, .npmrc and 2 more); to show one: --read '
               f'{box.source}/.env\n')
        # They are hidden, not changed.
        check('changed' not in r.text(), r)


@case
def one_that_is_granted_is_shown_and_no_other(box):
    plant(box)
    r = box.sh('cat .env; ! cat .env.local', '--read', f'{box.source}/.env')
    r.expect(0, out=b'SECRET\n')
    within(r.text(), '4 files that may hold secrets were hidden')
    r = box.sh('ls -A a/b; ls -A a', '--read', f'{box.source}/a').expect(0)
    equal(r.out, b'c\nserver.key\nb\ncredentials.json\n')


@case
def names_at_the_top_are_hidden_also_when_they_come_later(box):
    box.write('plain', 'x')
    task = box.start()
    box.write('.env', 'SECRET\n')
    box.write('.npmrc', 'SECRET\n')
    r = box.exec(task, 'sh', '-c', 'cat .env .npmrc; ls -A').expect(0)
    equal(r.out, b'plain\n')


@case
def what_git_tracks_stays_where_it_is(box):
    if not GIT:
        raise Skip('git is not there')
    git = ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', '-C',
           box.source]
    box.write('.env', 'tracked\n')
    box.write('test/server.pem', 'tracked\n')
    subprocess.run([*git, 'init', '-q'], check=True)
    subprocess.run([*git, 'add', '-A'], check=True)
    subprocess.run([*git, 'commit', '-qm', 'x'], check=True)
    box.write('.env.local', 'SECRET\n')
    r = box.sh('git status --short; cat .env test/server.pem; ls -A')
    equal(r.expect(0).out, b'tracked\ntracked\n.env\n.git\ntest\n')
    within(r.text(), '1 file that may hold secrets was hidden (.env.local)')


@case
def tokens_in_the_git_configuration_are_left_out(box):
    if not GIT:
        raise Skip('git is not there')
    subprocess.run([GIT, 'init', '-q', box.source], check=True)
    subprocess.run([GIT, '-C', box.source, 'remote', 'add', 'origin',
                    f'https://me:{TOKEN}@example.org/x.git'], check=True)
    box.write('f', 'x')
    for mode in ('overlay', 'copy'):
        r = box.sh('git remote get-url origin; git add f; '
                   'git -c user.name=a -c user.email=b commit -qm 1; '
                   f'git log --oneline | wc -l; grep -r {TOKEN} .',
                   '--workspace', mode, '--json')
        equal(r.out, b'https://example.org/x.git\n1\n', mode)
        within(r.text(), 'secrets in .git/config were left out\n')
        task = r.json()['id']
        check('.git/config' not in [c['path'] for c in
                                    box.changes(task)['changes']], mode)
    r = box.sh(f'grep -c {TOKEN} .git/config', '--read',
               f'{box.source}/.git/config')
    equal(r.out, b'1\n')


@case
def configurations_of_other_repositories_are_hidden_with_their_tokens(box):
    url = f'[remote "o"]\n\turl = https://me:{TOKEN}@h/\n'
    hidden = ('sub/.git/config', 'bare.git/config', '.git/config.worktree',
              '.git/modules/a/b/config', '.git/modules/a/b/modules/c/config',
              '.git/worktrees/w/config.worktree')
    for name in hidden:
        box.write(name, url)
    box.write('.git/config', f'[http] extraheader = \\\n\tbasic {TOKEN}\n')
    box.write('.git/HEAD', 'ref: refs/heads/main\n')
    box.write('a/.git/config', '[remote "o"]\n\turl = https://h/\n')
    for mode in ('overlay', 'copy', 'overlay'):
        r = box.sh(f'grep -rl {TOKEN} .; cat a/.git/config .git/config',
                   '--workspace', mode).expect(0)
        equal(r.out, b'[remote "o"]\n\turl = https://h/\n'
              b'[http] extraheader =\n', mode)
        within(r.text(), f'{len(hidden)} files that may hold secrets')
    # Kept by directories alone a change of the content would not be seen.
    with open(f'{box.source}/a/.git/config', 'w', encoding='ascii') as f:
        f.write(url)
    equal(box.sh(f'grep -rl {TOKEN} .').out, b'')


@case
def repositories_of_any_name_are_hidden_with_their_tokens(box):
    """Bare ones, and what a .git that is a link or a file leads to."""
    url = f'https://me:{TOKEN}@h/x'
    subprocess.run([GIT, 'init', '-q', '--bare', f'{box.source}/mirror'],
                   check=True, env=box.env)
    subprocess.run([GIT, '-C', f'{box.source}/mirror', 'config',
                    'remote.o.url', url], check=True, env=box.env)
    for name, made in (('one', 'gd'), ('two', 'gitdata')):
        top = f'{box.source}/{name}'
        more = [f'--separate-git-dir={top}/{made}'] if name == 'two' else []
        subprocess.run([GIT, 'init', '-q', *more, top], check=True,
                       env=box.env)
        if name == 'one':
            os.rename(f'{top}/.git', f'{top}/gd')
            os.symlink('gd', f'{top}/.git')
        subprocess.run([GIT, '-C', top, 'config', 'remote.o.url', url],
                       check=True, env=box.env)
        with open(f'{top}/{made}/extra', 'w', encoding='ascii') as f:
            f.write(f'[remote "x"]\n\turl = {url}\n')
        for source in (box.source, top):
            r = box.sh(f'grep -rl {TOKEN} . ; git -C {top} status >/dev/null; '
                       'echo $?', '--source', source, '--workspace', 'copy')
            equal(r.expect(0).out, b'0\n', (name, source))
            r = box.sh(f'grep -rl {TOKEN} .; git -C {top} status >/dev/null; '
                       'echo $?', '--source', source)
            equal(r.expect(0).out, b'0\n', (name, source))
            within(r.text(), 'that may hold secrets were hidden')


@case
def files_of_git_that_hold_tokens_beside_the_configuration_are_hidden(box):
    if not GIT:
        raise Skip('git is not there')
    git = [GIT, '-c', 'user.name=a', '-c', 'user.email=a@b', '-C', box.source]
    box.write('f', 'x')
    subprocess.run([GIT, 'init', '-qb', 'main', box.source], check=True)
    subprocess.run([*git, 'add', '-A'], check=True)
    subprocess.run([*git, 'commit', '-qm', 'x'], check=True)
    url = f'https://me:{TOKEN}@h/x.git'
    line = f'{"0" * 40} {"1" * 40} a <a@b> 1 +0000\tclone: from {url}\n'
    config = f'[remote "o"]\n\turl = {url}\n'
    hidden = {'FETCH_HEAD': f'{"1" * 40}\t\tbranch \'main\' of {url}\n',
              'config.bak': config, 'config.lock': config,
              '.config.swp': config,
              'logs/HEAD': line, 'logs/refs/heads/main': line,
              'logs/refs/remotes/o/' + 'd/' * 30 + 'deep': line,
              'remotes/o': f'URL: {url}\n', 'branches/o': f'{url}#main\n',
              'modules/a/logs/HEAD': line, 'modules/a/FETCH_HEAD': line,
              'modules/a/config~': config, 'worktrees/w/logs/HEAD': line}
    for name, text in hidden.items():
        box.write(f'.git/{name}', text)
    for mode in ('overlay', 'copy'):
        r = box.sh(f'grep -rl {TOKEN} .; echo y >f; '
                   'git -c user.name=a -c user.email=b commit -qam 2 && '
                   'git log --oneline | wc -l', '--workspace', mode, '--json')
        equal(r.expect(0).out, b'2\n', mode)
        within(r.text(), f'{len(hidden)} files that may hold secrets were')
        if mode == 'overlay':
            task = r.json()['id']
    box.pinfold('promote', '--yes', task).expect(0)
    equal(subprocess.run([*git, 'log', '--format=%s'], check=True,
                         stdout=subprocess.PIPE).stdout, b'2\nx\n')
    for name, text in hidden.items():
        with open(f'{box.source}/.git/{name}', encoding='ascii') as f:
            check(f.read().startswith(text), name)


@case
def other_names_of_a_hidden_file_are_hidden_too(box):
    box.write('.env', 'SECRET\n')
    box.write('plain', 'plain\n')
    os.link(f'{box.source}/plain', f'{box.source}/plain2')
    names = ('notes.txt', 'a/b/c/d/e/deep', 'node_modules/x')
    for name in names:
        os.makedirs(os.path.dirname(f'{box.source}/{name}'), exist_ok=True)
        os.link(f'{box.source}/.env', f'{box.source}/{name}')
    for mode in ('overlay', 'copy', 'overlay'):
        r = box.sh('grep -rl SECRET .; cat plain plain2', '--workspace', mode)
        equal(r.expect(0).out, b'plain\nplain\n', mode)
        within(r.text(), '4 files that may hold secrets were hidden (.env, '
               'a/b/c/d/e/deep, node_modules/x and 1 more)')
    # One that comes later is found although the file itself did not change.
    os.link(f'{box.source}/.env', f'{box.source}/a/later')
    equal(box.sh('grep -rl SECRET .').out, b'')


@case
def files_that_hold_secrets_in_a_directory_of_their_tool_are_hidden(box):
    hidden = ('.docker/config.json', '.kube/config', '.ssh/work',
              '.aws/credentials', '.config/gh/hosts.yml', 'x/.ssh/id',
              '.terraform/terraform.tfstate', 'prod.tfstate.backup')
    shown = ('config.json', 'docker/config.json', 'kube/config', 'hosts.yml')
    for name in hidden:
        box.write(name, 'SECRET\n')
    for name in shown:
        box.write(name, 'plain\n')
    for mode in ('overlay', 'copy'):
        r = box.sh('find . -type f | sort', '--workspace', mode).expect(0)
        equal(r.out.decode().split(), sorted(f'./{n}' for n in shown), mode)
        within(r.text(), f'{len(hidden)} files that may hold secrets were')


@case
def what_a_link_of_a_secret_name_leads_to_is_hidden_too(box):
    box.write('config/real', 'SECRET\n')
    box.write('config/other', 'plain\n')
    os.symlink('config/real', f'{box.source}/.env')
    os.symlink(f'{box.source}/config/real', f'{box.source}/config/.npmrc')
    os.symlink('nowhere', f'{box.source}/.env.local')
    os.symlink('/etc/passwd', f'{box.source}/.netrc')
    for mode in ('overlay', 'copy'):
        r = box.sh('cat .env config/*', '--workspace', mode)
        equal(r.out, b'plain\n', mode)
        within(r.text(), ' 5 files that may hold secrets were hidden')


@case
def a_secret_of_the_hosts_is_not_overwritten_by_promotion(box):
    plant(box)
    task = box.sh('echo mine >.env; echo x >plain',
                  '--json').expect(0).json()['id']
    r = box.pinfold('promote', '--yes', task)
    check(r.status in (0, 1), r)
    with open(f'{box.source}/.env', encoding='ascii') as f:
        equal(f.read(), 'SECRET\n')
    with open(f'{box.source}/plain', encoding='ascii') as f:
        equal(f.read(), 'x\n')


def content(box, name):
    with open(f'{box.source}/{name}', encoding='ascii') as f:
        return f.read()


def promoted(box, task, *words):
    """What the promotion of all that may be says."""
    r = box.pinfold('promote', '--yes', task, *words)
    check(r.status in (0, 1), r)
    return r.out.decode()


def plant_other_names(box):
    box.write('.env', 'SECRET\n')
    box.write('real', 'SECRET\n')
    os.makedirs(f'{box.source}/a/b/c/d')
    os.link(f'{box.source}/.env', f'{box.source}/a/b/c/d/notes.txt')
    os.symlink('real', f'{box.source}/.npmrc')


@case
def another_name_of_a_secret_is_not_overwritten_by_promotion(box):
    plant_other_names(box)
    box.write('plain', 'plain\n')
    for mode in ('overlay', 'copy'):
        r = box.sh('echo mine | tee a/b/c/d/notes.txt real plain',
                   '--json', '--workspace', mode).expect(0)
        within(r.text(), '2 held back (', mode)
        task = r.json()['id']
        marks = {c['path']: c['held'] for c in box.changes(task)['changes']}
        equal(sorted(path for path in marks if marks[path]),
              ['a/b/c/d/notes.txt', 'real'], (mode, marks))
        out = promoted(box, task)
        for name in ('real', 'a/b/c/d/notes.txt'):
            within(out, f'held back: {name}', mode)
            equal(content(box, name), 'SECRET\n', mode)
        within(out, 'it was hidden from the task', mode)
        equal(content(box, 'plain'), 'mine\n', mode)
        box.write('plain', 'plain\n')
    promoted(box, task, '--held', 'real')
    equal(content(box, 'real'), 'mine\n', 'it was named')


@case
def another_name_of_a_secret_does_not_go_with_its_directory(box):
    plant_other_names(box)
    for script in ('rm -r a', 'rm -r a && echo x >a', 'rm -r a/b/c && '
                   'mkdir a/b/c && echo x >a/b/c/d',
                   'mkdir real a/b/c/d/notes.txt'):
        for mode in ('overlay', 'copy'):
            task = box.sh(script, '--json',
                          '--workspace', mode).expect(0).json()['id']
            promoted(box, task)
            for name in ('real', 'a/b/c/d/notes.txt'):
                equal(content(box, name), 'SECRET\n', (script, mode))


@case
def a_directory_does_not_take_the_place_of_a_secret(box):
    box.write('.env', 'SECRET\n')
    task = box.sh('mkdir .env', '--json').expect(0).json()['id']
    within(promoted(box, task), 'held back: .env')
    equal(content(box, '.env'), 'SECRET\n')


@case
def what_files_deny_hid_is_not_overwritten_or_removed_by_promotion(box):
    names = ('a/x.pdf', 'a/b/c/d/y.pdf', 'private-1/z', 'literal')
    for name in names:
        box.write(name, 'SECRET\n')
    p = policy(box, 'files: {deny: ["**/*.pdf", "private-?", literal]}')
    for script in ('echo mine | tee a/x.pdf a/b/c/d/y.pdf literal; '
                   'mkdir private-1; echo mine >private-1/z',
                   'rm -r a/b', 'rm -r a; echo x >a', 'mkdir literal a/x.pdf'):
        for mode in ('overlay', 'copy'):
            task = box.sh(script, '--policy', p, '--json',
                          '--workspace', mode).expect(0).json()['id']
            promoted(box, task)
            for name in names:
                equal(content(box, name), 'SECRET\n', (script, mode))


@case
def without_the_list_of_what_was_hidden_everything_is_held_back(box):
    plant_other_names(box)
    box.write('plain', 'plain\n')
    for damage in ('missing', 'empty', 'changed'):
        task = box.sh('echo mine | tee plain real',
                      '--json').expect(0).json()['id']
        path = f'{box.folder(task)}/hidden'
        if damage == 'missing':
            os.unlink(path)
        else:
            with open(path, 'r+b') as f:
                f.truncate(0) if damage == 'empty' else f.write(b'\1')
        out = promoted(box, task)
        within(out, 'the list of what was hidden from the task is missing or '
               'damaged', damage)
        equal((content(box, 'plain'), content(box, 'real')),
              ('plain\n', 'SECRET\n'), damage)
    promoted(box, task, '--held', 'plain')
    equal(content(box, 'plain'), 'mine\n', 'it was named')


@case
def a_list_of_what_was_hidden_is_there_only_where_names_do_not_tell(box):
    plant(box)
    task = box.sh('echo x >plain', '--json').expect(0)
    equal(task.json()['hidden_digest'], '')
    check(not os.path.exists(f'{box.folder(task.json()["id"])}/hidden'), task)
    os.link(f'{box.source}/.env', f'{box.source}/other')
    task = box.sh('echo y >plain', '--json').expect(0).json()
    equal(len(task['hidden_digest']), 64)
    path = f'{box.folder(task["id"])}/hidden'
    check(os.path.exists(path), path)
    box.pinfold('discard', '--yes', task['id']).expect(0)
    check(not os.path.exists(path), 'it goes with the changes')


@case
def globs_hide_what_is_there_at_the_start(box):
    for name in ('a/x.pdf', 'a/b/c/d/y.pdf', 'keep', 'private-1/z'):
        box.write(name, 'text\n')
    p = policy(box, 'files: {deny: ["**/*.pdf", "private-?"]}')
    for mode in ('overlay', 'copy'):
        r = box.sh('find . -type f', '--policy', p, '--workspace', mode)
        equal(r.expect(0).out, b'./keep\n', mode)
    r = box.pinfold('policy', 'check', p).expect(0)
    within(r.text(), 'files.deny: "**/*.pdf" is expanded when a task starts')
    r = box.pinfold('policy', 'show', p).expect(0)
    within(r.out, b'private-?: hidden, where it is there at the start')
    p = policy(box, 'files: {workspace: copy, deny: ["**/*.pdf"]}')
    check('expanded' not in box.pinfold('policy', 'check', p).text(), p)
    # What the host adds later is seen when it is asked for again.
    box.write('new/later.pdf', 'text\n')
    r = box.sh('find . -name "*.pdf"', '--policy', p).expect(0, out=b'')


@case
def what_files_deny_hides_is_hidden_by_its_other_names_too(box):
    """Hard links, what a link leads to, and a path over a link."""
    box.write('d/key', 'SECRET1\n')
    os.link(f'{box.source}/d/key', f'{box.source}/other')
    box.write('real', 'SECRET2\n')
    os.symlink('real', f'{box.source}/lnk')
    box.write('dir/in', 'SECRET3\n')
    os.symlink('dir', f'{box.source}/over')
    box.write('x.sec', 'SECRET4\n')
    os.link(f'{box.source}/x.sec', f'{box.source}/d/plain')
    box.write('whole/f', 'SECRET5\n')
    os.symlink('whole', f'{box.source}/all.sec')
    box.write('seen', 'seen\n')
    path = policy(box, 'files: {deny: [d/key, lnk, over/in, "**/*.sec"]}')
    for mode in ('overlay', 'copy'):
        r = box.sh('grep -rs SECRET . ; cat other real dir/in d/plain whole/f; '
                   'cat seen; echo EVIL >other; echo EVIL >real', '--policy',
                   path, '--workspace', mode, '--json').expect(0)
        equal(r.out, b'seen\n', mode)
        task = r.json()['id']
        found = box.pinfold('promote', '--yes', '--json', task).expect(0)
        results = {c['path']: c['result']
                   for c in json.loads(found.out)['changes']}
        equal(results, {'other': 'held back', 'real': 'held back'}, mode)
        equal(content(box, 'd/key'), 'SECRET1\n')


@case
def another_name_that_comes_after_a_look_is_hidden(box):
    """What a look finds is kept; a new name changes no directory of it."""
    box.write('.env', 'SECRET\n')
    os.makedirs(f'{box.source}/1/2/3/4')
    path = policy(box, 'files: {deny: ["*.sec"]}')
    box.write('a.sec', 'SECRET\n')
    for options in ([], ['--policy', path]):
        time.sleep(0.3)
        box.run(*options, '--', 'true').expect(0)
        time.sleep(0.3)
        names = [f'{box.source}/1/2/3/4/{len(options)}{n}' for n in 'ab']
        os.link(f'{box.source}/.env', names[0])
        if options:
            os.link(f'{box.source}/a.sec', names[1])
        r = box.run(*options, '--', 'find', '1', '-type', 'f').expect(0)
        equal(r.out, b'')


@case
def a_denial_by_a_glob_beats_a_grant(box):
    box.write('a/x.pem', 'SECRET')
    p = policy(box, 'files: {deny: ["**/*.pem"]}')
    r = box.sh('cat a/x.pem', '--policy', p, '--read', f'{box.source}/a')
    r.expect(125)
    within(r.text(), 'cannot be hidden, because')


@case
def a_directory_that_holds_a_secret_is_itself_as_it_was(box):
    box.write('conf/.env', 'SECRET\n')
    box.write('conf/plain', 'plain\n')
    box.write('shared/deep/server.key', 'SECRET\n')
    os.chmod(f'{box.source}/conf', 0o700)
    os.chmod(f'{box.source}/shared', 0o2775)
    os.utime(f'{box.source}/conf', (1000000000, 1000000000))
    for i in range(100):
        box.write(f'many/{i}.pem', 'SECRET\n')
    os.chmod(f'{box.source}/many', 0o750)
    task = box.sh('stat -c "%a %U %n" conf shared shared/deep many; '
                  'stat -c %Y conf; touch conf/new shared/new many/new && '
                  'rm -r shared/deep && id -un', '--json').expect(0)
    *lines, user = task.out.decode().split('\n')[:-1]
    equal(lines, [f'700 {user} conf', f'2775 {user} shared',
                  f'755 {user} shared/deep', f'750 {user} many', '1000000000'])
    equal(sorted(c['path'] for c in
                 box.changes(task.json()['id'])['changes']),
          ['conf/new', 'many/new', 'shared/deep', 'shared/new'])


@case
def a_secret_does_not_go_with_the_directory_that_it_lies_in(box):
    box.write('d/e/server.key', 'SECRET\n')
    box.write('d/plain', 'plain\n')
    for mode in ('overlay', 'copy'):
        task = box.sh('rm -r d', '--json',
                      '--workspace', mode).expect(0).json()['id']
        r = box.pinfold('promote', '--yes', task)
        within(r.out, b'e/server.key', (mode, r))
        within(r.out, b'which may hold secrets that the task did not see')
        within(r.out, b'held back: d/')
        check(os.path.exists(f'{box.source}/d/e/server.key'), mode)
    box.pinfold('promote', '--held', 'd', '--yes', task).expect(0)
    check(not os.path.exists(f'{box.source}/d'), 'it was named')


@case
def the_layer_of_many_secrets_is_kept_and_follows_them(box):
    for i in range(200):
        box.write(f'{i}.pem', 'SECRET\n')
    script = 'ls -A; grep -c . 7.pem 2>/dev/null'
    for _ in range(2):
        box.sh(script).expect(2, out=b'')
    box.write('new.pem', 'SECRET\n')
    box.write('plain', 'plain\n')
    box.sh(script).expect(2, out=b'plain\n')
    os.unlink(f'{box.source}/7.pem')
    box.sh('touch 7.pem && ls -A').expect(0, out=b'7.pem\nplain\n')
    # Somebody who holds it keeps it, whatever is made and removed beside it.
    task = box.start()
    kept = f'{box.state}/hidden'
    names = set(os.listdir(kept))
    check(names, 'a layer is kept')
    for name in names:
        os.utime(f'{kept}/{name}', (1, 1))
    box.write('other.pem', 'SECRET\n')
    box.sh(script).expect(2, out=b'plain\n')
    box.exec(task, 'ls', '-A').expect(0, out=b'other.pem\nplain\n')
    check(names & set(os.listdir(kept)), 'the one in use is still there')


@case
def twenty_thousand_secrets_are_hidden(box):
    for i in range(200):
        os.makedirs(f'{box.source}/d{i}')
        for k in range(100):
            with open(f'{box.source}/d{i}/{k}.pem', 'wb'):
                pass
    r = box.sh('find . -type f | wc -l').expect(0, out=b'0\n')
    within(r.text(), '20000 files that may hold secrets were hidden (')
    r = box.sh('find . -type f | wc -l').expect(0, out=b'0\n')
    return f'{r.seconds:.2f} s'


if __name__ == '__main__':
    sys.exit(main())
