#!/usr/bin/python3
# situations: root user
# limit: 1800 s
"""Real tool chains and agents, installed from npm: slow, so with --all only."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '../integ'))
import box as b
from box import case, check, equal, within, main

INSTALL_S = 400


def install(box, *packages, folder=None, home=None):
    """npm, outside: with the machine's own settings, a home of the test."""
    npm = shutil.which('npm')
    if not npm:
        raise b.Skip('npm is not here')
    folder = folder or f'{box.top}/npm'
    os.makedirs(folder, exist_ok=True)
    env = {**os.environ, 'HOME': home or os.path.expanduser('~')}
    done = subprocess.run([npm, 'install', '--no-audit', '--no-fund',
                           *packages], cwd=folder, env=env, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          timeout=b.patient(INSTALL_S))
    check(done.returncode == 0, lambda: f'npm: {b.short(done.stdout)}')
    return folder


def agent(box, package, preset, command, version, usage):
    folder = install(box, package)
    box.env['PATH'] += f':{folder}/node_modules/.bin'
    options = ['--preset', preset, '--read', folder]
    r = box.run(*options, '--', command, '--version', timeout=120).expect(0)
    within(r.out, version)
    r = box.run(*options, '--', command, '--help', timeout=120).expect(0)
    within(r.out + r.err, usage)
    # With a terminal of its own, as a user starts it.
    r = box.run(*options, '-t', '--', command, '--version', timeout=120)
    within(r.expect(0).out, version)
    return folder


@case
def claude_code_prints_its_version_and_help(box):
    agent(box, '@anthropic-ai/claude-code', 'claude-code', 'claude',
          b'Claude Code', b'Usage: claude')


@case
def gemini_cli_prints_its_version_and_help(box):
    agent(box, '@google/gemini-cli', 'gemini-cli', 'gemini', b'0.',
          b'--prompt')


@case
def opencode_prints_its_version_and_help(box):
    agent(box, 'opencode-ai', 'opencode', 'opencode', b'1.', b'opencode')


@case
def codex_runs_and_so_does_its_own_sandbox_with_nesting(box):
    folder = agent(box, '@openai/codex', 'codex', 'codex', b'codex-cli',
                   b'Usage: codex')
    policy = f'{box.top}/nesting.yaml'
    with open(policy, 'w', encoding='ascii') as f:
        f.write('version: 1\nextends: codex\nnesting: true\n')
    script = 'echo inside; touch here && echo wrote; exit 7'
    r = box.run('--policy', policy, '--read', folder, '--', 'codex',
                'sandbox', '--', 'sh', '-c', script, timeout=120)
    # Its sandbox permits no writing, which pinfold does.
    equal((r.status, r.out), (7, b'inside\n'), r)
    within(r.text(), 'Read-only file system')
    # Without nesting it cannot be made, and codex says so.
    r = box.run('--preset', 'codex', '--read', folder, '--', 'codex',
                'sandbox', '--', 'sh', '-c', script, timeout=120)
    check(r.status not in (0, 7) and r.out == b'', r)
    within(r.text(), 'namespace')


def place(program, *path):
    """Where the tool's own installer puts it."""
    target = os.path.join(*path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(program, target)
    os.chmod(target, 0o755)
    return os.path.dirname(target)


def biggest(folder):
    """The program itself, of a package that has one for each machine."""
    files = [os.path.join(d, f) for d, _, names in os.walk(folder)
             for f in names]
    return max((f for f in files if not os.path.islink(f)),
               key=lambda f: os.lstat(f).st_size)


@case
def bun_and_deno_run_from_the_places_of_their_installers(box):
    folder = install(box, 'bun', 'deno')
    modules = f'{folder}/node_modules'
    bun = place(biggest(f'{modules}/bun'), box.home, '.bun/bin/bun')
    deno = place(biggest(f'{modules}/@deno'), box.home, '.deno/bin/deno')
    box.env['PATH'] = f'{bun}:{deno}:{box.env["PATH"]}'
    box.write('a.ts', 'const n: number = 6 * 7; console.log("is " + n);\n')
    box.run('--', 'bun', 'run', 'a.ts', timeout=120).expect(0, out=b'is 42\n')
    box.run('--', 'deno', 'run', 'a.ts', timeout=120).expect(0,
                                                             out=b'is 42\n')
    r = box.run('--', 'sh', '-c', 'echo x >>"$(command -v bun)"')
    check(r.status != 0, r)


@case
def npm_and_pnpm_install_from_the_callers_caches(box):
    npmrc = os.path.expanduser('~/.npmrc')
    if os.path.exists(npmrc):
        shutil.copy(npmrc, f'{box.home}/.npmrc')
    install(box, 'is-number@7.0.0', home=box.home)
    box.write('package.json', '{"name": "x", "version": "1.0.0"}\n')
    box.run('--', 'npm', 'install', '--offline', '--no-audit',
            'is-number@7.0.0', timeout=120).expect(0)
    folder = install(box, 'pnpm@9', folder=f'{box.top}/pnpm')
    home = place(f'{folder}/node_modules/pnpm/bin/pnpm.cjs', box.home,
                 '.local/share/pnpm/bin/pnpm.cjs')
    shutil.copytree(f'{folder}/node_modules/pnpm/dist',
                    f'{box.home}/.local/share/pnpm/dist')
    os.symlink('bin/pnpm.cjs', f'{box.home}/.local/share/pnpm/pnpm')
    shutil.copy(f'{folder}/node_modules/pnpm/package.json',
                f'{box.home}/.local/share/pnpm/package.json')
    box.env |= {'PNPM_HOME': os.path.dirname(home),
                'PATH': f'{os.path.dirname(home)}:{box.env["PATH"]}'}
    other = f'{box.top}/project'
    os.mkdir(other)
    with open(f'{other}/package.json', 'w', encoding='ascii') as f:
        f.write('{"name": "y", "version": "1.0.0"}\n')
    done = subprocess.run([f'{box.env["PNPM_HOME"]}/pnpm', 'add',
                           'is-number@7.0.0'], cwd=other,
                          env={**os.environ, **box.env}, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=b.patient(120))
    check(done.returncode == 0, lambda: f'pnpm: {b.short(done.stdout)}')
    check(os.path.isdir(f'{box.home}/.local/share/pnpm/store'), 'no store')
    r = box.sh('pnpm add --offline is-number@7.0.0 && '
               'node -p "require(\'is-number\')(7)" && ls -A', '--json',
               timeout=120).expect(0)
    within(r.out, b'true\n')
    check(b'.pnpm-store' not in r.out, r)


@case
def the_machines_own_cargo_and_python_run(box):
    if not b.ROOT:
        raise b.Skip('they are root\'s here')
    home = os.path.expanduser('~root')
    if not os.path.exists(f'{home}/.cargo/bin/cargo'):
        raise b.Skip('there is no cargo')
    box.env |= {'HOME': home, 'PATH': f'{home}/.cargo/bin:'
                f'{home}/.pyenv/shims:{box.env["PATH"]}'}
    r = box.sh('cargo new --vcs none hello -q && cd hello && cargo run -q',
               timeout=180)
    equal((r.status, r.out), (0, b'Hello, world!\n'), r)
    if os.path.exists(f'{home}/.pyenv/shims/python3'):
        r = box.run('--', 'python3', '-c', 'import sys; print(sys.prefix)')
        within(r.expect(0).out.decode(), f'{home}/.pyenv/versions/')


if __name__ == '__main__':
    sys.exit(main())
