#!/usr/bin/python3
# limit: 300 s
"""Coding agents inside: their settings, without what is secret in them; Unix
sockets that a policy passes on."""
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import box as b
from box import case, check, equal, within, main

SECRET = 'fL0ck-of-sheep-0123456789'
NO_MODEL = 'cannot reach a model: this version of pinfold has no network'
# Preset, what of the home is there, what is not.
AGENTS = [
    ('codex', {'.codex/config.toml': 'model = "x"\nenv_key = '
               '"OPENAI_API_KEY"\ntool_output_token_limit = 12000000\n',
               '.codex/AGENTS.md': 'be kind', '.codex/prompts/a.md': 'a'},
     ['.codex/auth.json', '.codex/history.jsonl', '.codex/sessions/2026/x',
      '.codex/log/codex.log', '.codex/new-in-the-next-version']),
    ('claude-code', {'.claude/settings.json': '{"env": {"A": "b"}}',
                     '.claude/CLAUDE.md': 'be kind',
                     '.claude/agents/a.md': 'a', '.claude/skills/s/S.md': 's'},
     ['.claude/.credentials.json', '.claude/ide/12345.lock',
      '.claude/projects/-home-x/1.jsonl', '.claude/history.jsonl',
      '.claude/shell-snapshots/s.sh', '.claude/statsig/x']),
    ('gemini-cli', {'.gemini/settings.json': '{"theme": "dark"}',
                    '.gemini/GEMINI.md': 'be kind',
                    '.gemini/extensions/e/e.json': '{}'},
     ['.gemini/oauth_creds.json', '.gemini/google_accounts.json',
      '.gemini/.env', '.gemini/extensions/e/.env', '.gemini/tmp/h']),
    ('aider', {'.aider.conf.yml': 'model: x\nopenai-api-key: $KEY_OF_MINE\n',
               '.aider.model.settings.yml': '- name: x\n'},
     ['.aider/oauth-keys.env', '.aider/analytics.json', '.env']),
    ('opencode', {'.config/opencode/opencode.json':
                  '{"provider": {"x": {"options": {"apiKey": "{env:K}"}}}}',
                  '.config/opencode/agent/a.md': 'a'},
     ['.local/share/opencode/auth.json', '.config/opencode/.env',
      '.local/share/opencode/log/x']),
]


def put(path, text=SECRET, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def has_upper_in_memory():
    major, minor = platform.release().split('.')[:2]
    return (int(major), int(minor.split('-')[0])) >= (6, 6)


@case
def a_preset_brings_the_settings_of_its_agent_and_no_secret(box):
    for preset, shown, hidden in AGENTS:
        for path, text in shown.items():
            put(f'{box.home}/{path}', text)
        for path in hidden:
            put(f'{box.home}/{path}')
    before = b.tree_state(box.home)
    for preset, shown, hidden in AGENTS:
        names = ' '.join(f'"$HOME/{path}"' for path in shown)
        r = box.sh(f'cat {names}', '--preset', preset)
        r.expect(0, out=''.join(shown.values()).encode(),
                 text=f'note: {preset} {NO_MODEL}')
        check('token' not in r.text(), r)
        r = box.sh(f'grep -rl {SECRET} ~ {box.home} 2>/dev/null; '
                   'find ~ -type f', '--preset', preset).expect(0)
        within(r.out.decode(), '/')
        home = '/home/agent' if os.geteuid() == 0 else box.home
        found = {line[len(home) + 1:] for line in r.out.decode().split()}
        # What git has to know is ours (docs/design/container.md).
        equal(found - {'.gitconfig'}, set(shown), preset)
    equal(b.tree_state(box.home), before)


@case
def what_an_agent_writes_to_its_settings_ends_with_the_task(box):
    if not has_upper_in_memory():
        raise b.Skip('settings are read-only before Linux 6.6')
    put(f'{box.home}/.codex/config.toml', 'model = "x"\n')
    put(f'{box.home}/.claude.json', '{"hasCompletedOnboarding": true}')
    before = b.tree_state(box.home)
    r = box.sh('echo new >~/.codex/config.toml && echo t >~/.codex/auth.json '
               '&& mkdir ~/.codex/sessions && cat ~/.codex/config.toml && '
               'rm ~/.codex/AGENTS.md 2>/dev/null; ls -A ~/.codex',
               '--preset', 'codex').expect(0)
    equal(r.out.split(), [b'new', b'auth.json', b'config.toml', b'sessions'])
    box.sh('echo x >>~/.claude.json && rm ~/.claude.json', '--preset',
           'claude-code').expect(0)
    equal(b.tree_state(box.home), before)


@case
def settings_that_hold_a_token_are_kept_back_and_named(box):
    for preset, path, text in (
            ('codex', '.codex/config.toml',
             '[mcp_servers.x.env]\nGITHUB_TOKEN = "abcdefgh12345678"\n'),
            ('claude-code', '.claude/settings.json',
             '{"env": {"ANTHROPIC_API_KEY": "abcdefgh12345678"}}'),
            ('gemini-cli', '.gemini/settings.json',
             '{"headers": {"Authorization": "Bearer abc"}}'),
            ('aider', '.aider.conf.yml', 'openai-api-key: abcdefgh12345678\n'),
            ('opencode', '.config/opencode/opencode.json',
             '{"apiKey":"abcdefgh12345678"}')):
        put(f'{box.home}/{path}', text)
        box.sh(f'test ! -e ~/{path}', '--preset', preset).expect(
            0, text=f'{box.home}/{path} was not shown, because it seems to '
            'hold a token')
        os.unlink(f'{box.home}/{path}')


@case
def of_claude_json_a_few_settings_come(box):
    put(f'{box.home}/.claude.json', json.dumps({
        'hasCompletedOnboarding': True, 'theme': 'dark', 'numStartups': 7,
        'oauthAccount': {'emailAddress': f'{SECRET}@example.org'},
        'primaryApiKey': SECRET, 'userID': SECRET, 'mcpServers': {
            'x': {'env': {'K': SECRET}}},
        'projects': {box.source: {'hasTrustDialogAccepted': True,
                                  'history': [SECRET]},
                     '/other': {'hasTrustDialogAccepted': True}}}))
    r = box.sh('cat ~/.claude.json', '--preset', 'claude-code').expect(0)
    equal(json.loads(r.out), {
        'hasCompletedOnboarding': True, 'theme': 'dark', 'numStartups': 7,
        'projects': {box.source: {'hasTrustDialogAccepted': True}}})
    put(f'{box.home}/.claude.json', '{"broken": ' + SECRET)
    box.sh('test ! -e ~/.claude.json', '--preset', 'claude-code').expect(
        0, text=f'{box.home}/.claude.json was not shown')


@case
def links_in_the_settings_of_an_agent_lead_nowhere_else(box):
    put(f'{box.home}/.ssh/id_ed25519')
    put(f'{box.home}/.codex/config.toml', 'model = "x"\n')
    os.symlink(f'{box.home}/.ssh', f'{box.home}/.codex/prompts')
    os.symlink(f'{box.home}/.ssh/id_ed25519', f'{box.home}/.aider.conf.yml')
    os.symlink(f'{box.home}/.ssh', f'{box.home}/.gemini')
    os.symlink(f'{box.home}/.ssh/id_ed25519', f'{box.home}/.codex/AGENTS.md')
    for preset in ('codex', 'aider', 'gemini-cli'):
        r = box.sh(f'grep -r {SECRET} ~ {box.home}; cat ~/.codex/prompts/*; '
                   'cat ~/.codex/AGENTS.md; '
                   'cat ~/.gemini/*', '--preset', preset)
        check(r.status != 0 and r.out == b'', r)


@case
def an_agents_key_is_passed_by_name_alone(box):
    box.env |= {'OPENAI_API_KEY': SECRET, 'CLAUDE_CODE_SSE_PORT': '1',
                'GEMINI_CLI_IDE_SERVER_PORT': '2', 'VSCODE_IPC_HOOK_CLI': '3'}
    r = box.sh('env', '--preset', 'codex').expect(0)
    for name in ('OPENAI_API_KEY', '_PORT', 'VSCODE'):
        check(name not in r.out.decode(), r)
    box.sh('echo $OPENAI_API_KEY', '--preset', 'codex', '--env',
           'OPENAI_API_KEY').expect(0, out=f'{SECRET}\n'.encode())


@case
def what_a_preset_brings_is_shown(box):
    put(f'{box.home}/.codex/config.toml', 'model = "x"\n')
    r = box.pinfold('policy', 'show', '--preset', 'codex', '--json').expect(0)
    shown = json.loads(r.out)
    rows = {row['object']: row for row in shown['rows']}
    home = '/home/agent' if os.geteuid() == 0 else box.home
    equal(rows[f'{home}/.codex']['rule'], 'files.agents')
    within(str(shown['warnings']), 'no network')
    equal(shown['policy']['files']['agents'], ['codex'])
    policy = put(f'{box.top}/p.yaml', 'version: 1\nfiles: {agents: [codx]}\n')
    box.pinfold('policy', 'check', policy).expect(
        1, text='did you mean codex?')


class Server:
    """A listening Unix socket that answers once for each connection."""

    def __init__(self, path, mode=0o666):
        self.asked = []
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        os.chmod(path, mode)
        self.socket.listen(8)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with peer:
                self.asked.append(peer.recv(100))
                peer.sendall(b'answer')


CONNECT = '''
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"question")
print(s.recv(100).decode())
'''


def short_dir(box, name):
    """sockaddr_un has 108 bytes; and never below /tmp of the sandbox alone."""
    path = f'{box.top}/{name}'
    check(len(path) < 90, path)
    return path


@case
def a_socket_that_is_named_is_reached_and_no_other(box):
    folder = short_dir(box, 's')
    named = Server(f'{folder}/named')
    other = Server(f'{folder}/other')
    inside = Server(f'{box.source}/in')
    policy = put(f'{box.top}/p.yaml', 'version: 1\nfiles:\n  sockets: '
                 f'[{folder}/named, {box.source}/in]\n  read: [{folder}]\n')
    for path in (f'{folder}/named', f'{box.source}/in'):
        r = box.run('--policy', policy, '--json', '--', 'python3', '-c',
                    CONNECT, path)
        equal((r.status, r.out), (0, b'answer\n'), r)
        equal(r.json()['sockets'], sorted([f'{folder}/named',
                                           f'{box.source}/in']))
        equal(r.json()['refusals'], [])
    r = box.run('--policy', policy, '--', 'python3', '-c', CONNECT,
                f'{folder}/other')
    check(r.status == 1 and 'ConnectionRefused' in r.text(), r)
    r = box.run('--', 'python3', '-c', CONNECT, f'{folder}/named')
    check(r.status == 1, r)
    r = box.run('--policy', policy, '--', 'sh', '-c',
                f'rm {folder}/named || mv {folder}/named x')
    check(r.status != 0, r)
    equal((named.asked, other.asked, inside.asked),
          ([b'question'], [], [b'question']))


@case
def what_cannot_be_passed_as_a_socket_is_refused_by_name(box):
    folder = short_dir(box, 's')
    put(f'{folder}/file', '')
    os.symlink(f'{folder}/file', f'{folder}/link')
    for path, text in ((f'{folder}/file', 'it is no socket'),
                       (f'{folder}/link', 'it is no socket'),
                       (f'{folder}/none', 'No such file')):
        policy = put(f'{box.top}/p.yaml',
                     f'version: 1\nfiles: {{sockets: [{path}]}}\n')
        box.run('--policy', policy, '--', 'true').expect(
            125, text=f'files.sockets: cannot grant "{path}"')
        within(box.run('--policy', policy, '--', 'true').text(), text)
    for path in ('/run/docker.sock', '/run/user/1000/bus',
                 '/run/user/1000/vscode-ipc-1.sock', '/tmp/.X11-unix/X0',
                 '/run/dbus/system_bus_socket', '/tmp/ssh-x/agent.1',
                 '/run/user/1000/gnupg/S.gpg-agent', '/run/systemd/private',
                 '/run/user/1000/podman/podman.sock',
                 '/run/user/1000/wayland-0', '/home/u/.ssh/agent'):
        policy = put(f'{box.top}/p.yaml',
                     f'version: 1\nfiles: {{sockets: ["{path}"]}}\n')
        box.pinfold('policy', 'check', policy).expect(
            1, text=f'files.sockets: "{path}"')
    Server(f'{folder}/private', 0o600)
    policy = put(f'{box.top}/p.yaml',
                 f'version: 1\nfiles: {{sockets: [{folder}/private]}}\n')
    r = box.run('--policy', policy, '--', 'python3', '-c', CONNECT,
                f'{folder}/private')
    if os.geteuid() == 0:
        r.expect(125, text='its mode does not let everybody write')
    else:
        r.expect(0, out=b'answer\n')


@case
def a_real_agent_prints_its_version_and_help(box):
    """The others: tests/real."""
    npm = shutil.which('npm')
    if not b.ROOT or not npm:
        raise b.Skip('installed once, where npm is')
    folder = f'{box.top}/claude'
    os.mkdir(folder)
    try:
        done = subprocess.run(
            [npm, 'install', '--no-audit', '--no-fund', '--no-save',
             '@anthropic-ai/claude-code'], cwd=folder, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=b.patient(120),
            env={**os.environ, 'HOME': os.path.expanduser('~root')})
    except subprocess.TimeoutExpired:
        raise b.Skip('npm does not come to an end here') from None
    if done.returncode != 0:
        raise b.Skip(f'npm cannot install it here: {b.short(done.stdout)}')
    box.env['PATH'] += f':{folder}/node_modules/.bin'
    options = ['--preset', 'claude-code', '--read', folder]
    r = box.run(*options, '--', 'claude', '--version').expect(0)
    within(r.out, b'Claude Code')
    r = box.run(*options, '--', 'claude', '--help').expect(0)
    within(r.out, b'Usage: claude')


if __name__ == '__main__':
    sys.exit(main())
