#include "cli/option_table.h"

#include "base/cleanup.h"
#include "base/str.h"

/* Help lines are 52 characters at most (tests/unit/option_test.c). */
const struct option_row option_rows[OPT_COUNT] = {
	[OPT_SOURCE] = {
		.name = "source", .argument = ARGUMENT_REQUIRED,
		.metavar = "DIR|none", .words = "none <dir>",
		.help = "work on a view of DIR",
		.manual =
"The directory that the command works on, shown at its own path. Without this "
"option it is the top of the git work tree around the working directory if "
"the caller owns it, else the working directory. \"none\" gives an empty "
"directory, of which nothing is kept. In / and in the home directory the "
"option must be given.",
	},
	[OPT_WORKDIR] = {
		.name = "workdir", .argument = ARGUMENT_REQUIRED,
		.metavar = "DIR", .words = "<dir>",
		.help = "start the command in DIR",
		.manual =
"Where in the sandbox the command starts. The default is the working "
"directory when it lies in the source, else the source. DIR is the source or "
"lies in it.",
	},
	[OPT_POLICY] = {
		.name = "policy", .argument = ARGUMENT_REQUIRED,
		.metavar = "FILE", .words = "<file>",
		.excludes = OPTION_BIT(OPT_PRESET),
		.help = "use this policy",
		.manual =
"The policy in force. Without it and --preset it is "
"~/.config/pinfold/policy.yaml if that exists, else the built-in one "
"(offline). /etc/pinfold/policy.yaml is a ceiling for each of them. A policy "
"is never taken from the source, where the command could write one.",
	},
	[OPT_PRESET] = {
		.name = "preset", .argument = ARGUMENT_REQUIRED,
		.metavar = "NAME",
		.words = "aider claude-code codex gemini-cli offline opencode",
		.excludes = OPTION_BIT(OPT_POLICY),
		.help = "use this policy of pinfold's own",
		.manual =
"One of the policies that come with pinfold. offline: the system and the "
"source can be read, changes are held back, there is no network. aider, "
"claude-code, codex, gemini-cli, opencode: the same with what of that agent's "
"own directories in the home is settings, without its credentials and "
"conversations; its model cannot be reached, as there is no network.",
	},
	[OPT_TIER] = {
		.name = "tier", .argument = ARGUMENT_REQUIRED,
		.metavar = "TIER", .words = "auto container",
		.help = "what separates the sandbox from the host",
		.manual =
"auto takes the least tier that the policy's classification needs. container "
"shares the host's kernel. A tier that this version does not have is refused, "
"never replaced by a weaker one.",
	},
	[OPT_READ] = {
		.name = "read", .argument = ARGUMENT_REQUIRED,
		.metavar = "PATH", .words = "<file>", .repeats = true,
		.help = "let the command read PATH too",
		.manual =
"Shows a host path inside, read-only. Sockets and FIFOs below it are dead. "
"May be given again for further paths.",
	},
	[OPT_WRITE] = {
		.name = "write", .argument = ARGUMENT_REQUIRED,
		.metavar = "DIR", .words = "<dir>", .repeats = true,
		.help = "let the command change a view of DIR too",
		.manual =
"Shows a host directory inside that can be changed. As with the source, the "
"host's files stay as they are and the changes are held back. May be given "
"again.",
	},
	[OPT_ENV] = {
		.name = "env", .argument = ARGUMENT_REQUIRED,
		.metavar = "NAME[=VALUE]", .repeats = true, .keyed = true,
		.help = "set a variable, or pass the caller's",
		.manual =
"Puts a variable into the command's environment, which otherwise holds only "
"what the policy lists. Without a value the caller's is passed on; one that the "
"caller has not is named and left out. May be given again.",
	},
	[OPT_LIMIT] = {
		.name = "limit", .argument = ARGUMENT_REQUIRED,
		.metavar = "NAME=VALUE",
		.words = "cpus= memory= disk= inodes= processes= open_files= "
			 "output= cpu_time= wall= idle=",
		.repeats = true, .keyed = true,
		.help = "limit a resource",
		.manual =
"memory, disk, output (sizes such as 512MiB), processes, inodes (numbers), "
"cpu_time, wall and idle (durations such as 90s) stop the task, which then "
"ends with status 137 (wall: 124) and \"limit: NAME\" on standard error; "
"open_files refuses, cpus (such as 1.5) slows down. \"none\" lifts a limit that the "
"policy's ceiling does not set. May be given again.",
	},
	[OPT_TIMEOUT] = {
		.name = "timeout", .argument = ARGUMENT_REQUIRED,
		.metavar = "DURATION",
		.help = "end the command after this time, status 124",
		.manual =
"Ends the command and all it has started when DURATION (500ms, 30s, 5m, 8h) "
"has passed. The exit status is then 124. For run the same as "
"--limit wall=DURATION, and not given beside it.",
	},
	[OPT_LABEL] = {
		.name = "label", .argument = ARGUMENT_REQUIRED,
		.metavar = "KEY=VALUE", .repeats = true, .keyed = true,
		.help = "a note in the task's record",
		.manual =
"A note for whoever reads the record; it changes nothing else. What the label "
"\"name\" says is shown by ps. May be given again with another key.",
	},
	[OPT_WORKSPACE] = {
		.name = "workspace", .argument = ARGUMENT_REQUIRED,
		.metavar = "MODE", .words = "auto overlay copy direct",
		.help = "auto, overlay, copy, or direct: write at once",
		.manual =
"overlay keeps changes in a layer over the source, copy works on a private "
"copy, auto takes overlay and falls back to copy where an overlay would "
"break; direct writes to the source at once (pinfold-policy(5) says what is "
"pinned).",
	},
	[OPT_JSON] = {
		.name = "json", .argument = ARGUMENT_OPTIONAL,
		.metavar = "FILE", .words = "<file>",
		.excludes = OPTION_BIT(OPT_STAT),
		.help = "report in JSON",
		.manual =
"One JSON object on standard output, or in FILE.",
	},
	[OPT_QUIET] = {
		.letter = 'q', .name = "quiet",
		.help = "say nothing at the end of a command that succeeded",
		.manual =
"Leaves out what pinfold says after a command that ended with status 0: the "
"files that it changed, what was hidden from it, the attempts at the network "
"that were refused. Whatever else its status is, all of it is said, and what "
"pinfold itself could not do always is. pinfold ps TASK and pinfold diff TASK "
"tell it later.",
	},
	[OPT_NO_STDIN] = {
		.letter = 'n', .name = "no-stdin",
		.excludes = OPTION_BIT(OPT_TTY),
		.help = "give the command an empty standard input",
		.manual = "Standard input is not read; the command finds it "
			  "at its end.",
	},
	[OPT_TTY] = {
		.letter = 't', .name = "tty",
		.excludes = OPTION_BIT(OPT_NO_TTY),
		.help = "give the command a terminal",
		.manual =
"The command gets a terminal of the sandbox's own, with job control. This is "
"the default when standard input and output are a terminal.",
	},
	[OPT_NO_TTY] = {
		.letter = 'T', .name = "no-tty",
		.excludes = OPTION_BIT(OPT_TTY),
		.help = "give the command pipes",
		.manual = "The command gets pipes even when called from a "
			  "terminal.",
	},
	[OPT_ALL] = {
		.letter = 'a', .name = "all",
		.help = "all tasks of the caller",
		.manual = "Every task of the caller that has ended.",
	},
	[OPT_FOLLOW] = {
		.letter = 'f', .name = "follow",
		.help = "go on until the command has ended",
		.manual = "Prints what is there and then what comes, until "
			  "the command has ended.",
	},
	[OPT_STAT] = {
		.name = "stat",
		.excludes = OPTION_BIT(OPT_JSON),
		.help = "only the numbers for each file",
		.manual = "Prints a line for each changed file and a sum.",
	},
	[OPT_TREE] = {
		.name = "tree",
		.excludes = OPTION_BIT(OPT_JSON) | OPTION_BIT(OPT_STAT) |
			    OPTION_BIT(OPT_PATCH),
		.help = "show the changes as a tree",
		.manual = "Prints the changed files below the directories that "
			  "hold them.",
	},
	[OPT_PATCH] = {
		.letter = 'p', .name = "patch",
		.excludes = OPTION_BIT(OPT_STAT),
		.help = "show what changed in the files",
		.manual =
"Prints a unified diff with git's headers, which git apply takes; of a binary "
"file it says only that it differs, and git apply refuses the whole patch by "
"that file's name unless --exclude leaves the file out. What such a "
"text cannot say stands in lines that begin with #: sizes of binary files and "
"of files above 8 MiB, permissions beyond the executable bit, FIFOs, why a "
"file is held back. On a terminal every control character, invisible and "
"reordering ones included, is shown as \\xNN. What lies in .git, or in "
"another directory than the source, is shown when it is named.",
	},
	[OPT_GRACE] = {
		.name = "grace", .argument = ARGUMENT_REQUIRED,
		.metavar = "DURATION",
		.help = "time between SIGTERM and SIGKILL",
		.manual =
"A command that is to end gets SIGTERM and, if it still runs after DURATION, "
"SIGKILL, and so does everything it has started. Without the option it has 2s.",
	},
	[OPT_YES] = {
		.letter = 'y', .name = "yes",
		.help = "do not ask",
		.manual = "Does not ask for confirmation. Needed where there is "
			  "no terminal to ask on.",
	},
	[OPT_ONLY] = {
		.name = "only", .argument = ARGUMENT_REQUIRED,
		.metavar = "GLOB", .words = "<file>", .repeats = true,
		.help = "promote only what GLOB covers",
		.manual =
"Promotes what the pattern says, and what lies below that; the rest stays in "
"the task. The pattern is relative to the source: * stands for any part of a "
"name, ** for any number of directories. For a further directory that the task "
"could write it begins with that directory's path. A pattern that no change "
"fits is an error. May be given again.",
	},
	[OPT_HELD] = {
		.name = "held", .argument = ARGUMENT_REQUIRED,
		.metavar = "PATH", .words = "<file>", .repeats = true,
		.help = "promote PATH although it is held back",
		.manual =
"Takes PATH over although it is protected, or was changed on the host since "
"the task began. Look at it first: what is protected is run or obeyed by "
"programs of the host. What the host has there is kept for an undo. May be "
"given again.",
	},
	[OPT_MERGE] = {
		.name = "merge",
		.help = "merge text files that the host changed too",
		.manual =
"Of a text file that the host has changed since the task began, and that is a "
"conflict without this, both sides' changes come. What both began from is the "
"file as git's index of the source has it, if it has been there since before "
"the task began. Where there is none, and where both sides changed the same "
"lines or permissions, the conflict stays and says why; no marks are ever "
"written into a file. What the host had is kept for an undo.",
	},
	[OPT_DRY_RUN] = {
		.letter = 'n', .name = "dry-run",
		.help = "show what would come, and do nothing",
		.manual =
"Shows what promote would take over and what it would leave, and why, and ends "
"with the status that it would have: 1 where there are conflicts, else 0. Nothing "
"is asked and nothing is changed, whether --yes is given or not.",
	},
	[OPT_OLDER_THAN] = {
		.name = "older-than", .argument = ARGUMENT_REQUIRED,
		.metavar = "DURATION",
		.help = "tasks that ended longer ago than this",
		.manual =
"Every task of the caller that ended more than DURATION (such as 12h or 30d) "
"ago.",
	},
	[OPT_CHANGES] = {
		.name = "changes",
		.help = "also what holds changes",
		.manual =
"Removes changes that were neither promoted nor discarded together with the "
"record. Without this a task that holds changes is left as it is.",
	},
	[OPT_HELP] = {
		.letter = 'h', .name = "help",
		.help = "print this help",
		.manual = "Prints a short help.",
	},
	[OPT_VERSION] = {
		.name = "version",
		.help = "print the version",
		.manual = "Prints the version.",
	},
};

/* Where an option means something else than its row says. */
static const struct {
	const char *verb;
	enum option_id id;
	const char *manual;
} others[] = {
	{"exec", OPT_WORKDIR,
	 "Where in the sandbox the command starts. The default is the directory "
	 "that the sandbox was started in; a relative DIR begins there too."},
	{"run", OPT_JSON,
	 "One JSON object as the last line of standard error, or in FILE."},
	{"exec", OPT_JSON,
	 "One JSON object as the last line of standard error, or in FILE."},
	{"ps", OPT_ALL, "Also tasks that have ended."},
	{"stop", OPT_ALL, "Every sandbox of the caller that was started to "
			  "stay."},
	{"kill", OPT_ALL, "Every sandbox of the caller that was started to "
			  "stay."},
	{"refresh", OPT_MERGE,
	 "Refused: what both sides have changed is merged by pinfold promote "
	 "--merge, once the task has ended."},
	{"ps", OPT_LABEL,
	 "Only tasks that have this label, or with KEY alone, one of this key; "
	 "given again, that have all of them."},
};

const char *option_manual(const struct verb_row *verb, enum option_id id)
{
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		if (others[i].id == id && str_eq(others[i].verb, verb->name))
			return others[i].manual;
	}
	return option_rows[id].manual;
}

#define O(x) OPTION_BIT(OPT_##x)
#define GRANTS (O(SOURCE) | O(WORKDIR) | O(POLICY) | O(PRESET) | O(TIER) | \
		O(READ) | O(WRITE) | O(ENV) | O(LIMIT) | O(LABEL) | \
		O(WORKSPACE))
#define STREAMS (O(NO_STDIN) | O(TTY) | O(NO_TTY))
#define NO_COMMAND SIZE_MAX
#define ANY SIZE_MAX

const struct verb_row verb_rows[] = {
	{
		.name = "run", .synopsis = "[--] COMMAND [ARGUMENT]...",
		.command_from = 0, .min_operands = 1, .max_operands = ANY,
		.missing = "no command given",
		.options = GRANTS | STREAMS | O(TIMEOUT) | O(GRACE) | O(JSON) |
			   O(QUIET),
		.help = "run a command in a sandbox of its own",
		.manual =
"Runs COMMAND in a new sandbox and ends the sandbox with it. The command can "
"read the system's directories and the source; it has no network, no home, no "
"secrets and no view of other processes. What it changes is held back: "
"pinfold diff shows it, pinfold promote takes it over, and pinfold discard "
"throws it away. The home and /tmp are the sandbox's own and end with it.\n\n"
"COMMAND is an argument vector; no shell reads it.\n\n"
"\tpinfold run -- python3 -m unittest\n"
"\tpinfold run --limit memory=1GiB --timeout 5m -- make",
	},
	{
		.name = "start", .synopsis = "",
		.command_from = NO_COMMAND,
		.options = GRANTS | O(GRACE) | O(JSON),
		.help = "start a sandbox that stays",
		.manual =
"Starts a sandbox, prints its name and returns. pinfold exec runs commands in "
"it, one after another or at once, on the same files. It ends by stop, kill, "
"a limit or a reboot.",
	},
	{
		.name = "exec", .synopsis = "TASK [--] COMMAND [ARGUMENT]...",
		.command_from = 1, .min_operands = 2, .max_operands = ANY,
		.missing = "a task and a command are needed",
		.options = STREAMS | O(WORKDIR) | O(ENV) | O(TIMEOUT) |
			   O(GRACE) | O(JSON),
		.help = "run a command in a started sandbox",
		.manual =
"Runs COMMAND in the sandbox TASK and returns when the command does. What it "
"leaves running stays until the sandbox ends; pinfold ps TASK shows it.",
	},
	{
		.name = "ps", .synopsis = "[TASK]",
		.command_from = NO_COMMAND, .max_operands = 1,
		.options = O(ALL) | O(LABEL) | O(JSON),
		.help = "list sandboxes, or describe one",
		.manual =
"Lists the caller's sandboxes that run: how long ago they started and how much "
"their changes hold; with -a also the tasks that have ended. With TASK it "
"prints what the task's record says: its policy, what enforced it, what was "
"refused, and the processes it has.",
	},
	{
		.name = "logs", .synopsis = "TASK [NUMBER]",
		.command_from = NO_COMMAND, .min_operands = 1,
		.max_operands = 2, .missing = "no task given",
		.options = O(FOLLOW) | O(JSON),
		.help = "print what a command of a sandbox has written",
		.manual =
"Prints the output of the command with this NUMBER in TASK, or of its last "
"one. The first exec of a sandbox is 1.",
	},
	{
		.name = "stop", .synopsis = "TASK...",
		.command_from = NO_COMMAND, .max_operands = ANY,
		.options = O(ALL) | O(GRACE) | O(JSON),
		.help = "end a sandbox, with notice to its commands",
		.manual =
"Ends each TASK: its commands get SIGTERM, after the grace SIGKILL. Its "
"changes stay until they are discarded.",
	},
	{
		.name = "kill", .synopsis = "TASK...",
		.command_from = NO_COMMAND, .max_operands = ANY,
		.options = O(ALL) | O(JSON),
		.help = "end a sandbox at once",
		.manual =
"Ends each TASK at once with everything in it. Its changes stay until they "
"are discarded.",
	},
	{
		.name = "refresh", .synopsis = "[TASK]",
		.command_from = NO_COMMAND, .max_operands = 1,
		.options = O(MERGE) | O(JSON),
		.help = "give a started sandbox the host's newer files",
		.manual =
"Makes the sandbox TASK, or the last one of this source, see the files of its "
"source, and of the further directories that it was granted, as the host has them "
"now. Nothing may run in it meanwhile: what runs holds files as they were, and is "
"named. What the task has changed stays as the task has it; where the host has "
"changed it too since the task touched it, that is a conflict: it is named, and "
"the exit status is then 1. pinfold promote names the same conflicts once the "
"task has ended, and merges them with --merge, which refresh does not do.\n\n"
"Files of the host that hold secrets are hidden as at the start, those that have "
"come since too. A single file that was granted, and what the sandbox has of the "
"system, stays as it was.\n\n"
"\tpinfold refresh t-6znkfzn6nj57pmgo",
	},
	{
		.name = "diff", .synopsis = "[TASK] [PATH]...",
		.command_from = NO_COMMAND, .max_operands = ANY,
		.options = O(STAT) | O(TREE) | O(PATCH) | O(JSON),
		.help = "show what a task has changed",
		.manual =
"Shows the files that TASK, or the last task of this source, has added (A), "
"changed (M) or removed (D), which of them were moved, by their content, and "
"which would be held back, because a program of the host would run or obey "
"them. The order is that of the bytes of their paths; what it changed in "
"further directories comes after that, each by itself with its whole path. What "
"git keeps for itself in .git (objects, logs, its index) is counted alone; with the "
"PATH .git it is shown. References are told as promote tells them. What the host "
"has changed since the task began is marked as a conflict, as promote would leave "
"it.\n\n"
"With --patch and the PATH .git/refs/heads/NAME, or another reference's, the commits "
"that it brings are shown with their patches; git has to be installed.\n\n"
"With PATHs, what lies at or below them: relative to the working directory if "
"that lies in the source, else to the source, or absolute. A file whose name "
"could be a task's (t- and letters, or the id of one without it) is written "
"./NAME.",
	},
	{
		.name = "promote", .synopsis = "[TASK] [PATH]...",
		.command_from = NO_COMMAND, .max_operands = ANY,
		.options = O(ONLY) | O(HELD) | O(MERGE) | O(DRY_RUN) | O(YES) | O(JSON),
		.help = "take a task's changes over",
		.manual =
"Writes into the source what TASK, or the last task of this source, has "
"changed; with PATHs, named as for diff, what lies at or below them. It first says what that is and asks; where there is no terminal, it "
"says so too, and --yes is needed. --dry-run says it and nothing more. Each file is replaced at once, and an interrupted promotion "
"is finished or taken back by the next command. What was replaced is kept for "
"pinfold undo until the task is discarded or removed.\n\n"
"What programs of the host would run or obey (hooks, start-up files of "
"editors and agents, what the policy protects) is held back; --held names what "
"is to be taken over all the same, with a directory all that is held back in "
"it. What the host has changed since the task began is a conflict: it is named, "
"and left as it is, unless --held names the very file or --merge can merge it. "
"FIFOs, sockets and devices are refused. What is not promoted stays in the "
"task. The exit status is 1 where there are conflicts or something was refused, "
"and when the answer was no.\n\n"
"Of the repository what was committed comes: branches, tags, notes, the stash and "
"what is checked out, with their objects, which are checked first, and git status "
"is right afterwards. Where the host has checked out another branch since, the "
"branches move and the files that were committed stay out of the working tree, as "
"conflicts; --held .git/HEAD brings them. A branch that the host has moved since is "
"a conflict, one that brings a path that is protected, and a new one whose name "
"means another of the host's as well, is held back; both are named to "
"--only and --held as .git/refs/heads/NAME. Configuration, hooks, submodules and "
"the like never come. git has to be installed.\n\n"
"New files get the owner of the directory that they come into, others keep "
"theirs; set-user-id and set-group-id bits never come.\n\n"
"\tpinfold promote\n"
"\tpinfold promote src/main.c\n"
"\tpinfold promote --only 'src/**/*.c' --yes",
	},
	{
		.name = "undo", .synopsis = "[TASK]",
		.command_from = NO_COMMAND, .max_operands = 1,
		.options = O(JSON),
		.help = "take the last promotion back",
		.manual =
"Puts back what the last promotion of TASK, or of the last task of this "
"source, has replaced, and takes away what it has added. The task has its "
"changes again. What was changed in the source since is named and left; the "
"exit status is then 1.",
	},
	{
		.name = "discard", .synopsis = "[TASK]... [PATH]...",
		.command_from = NO_COMMAND, .max_operands = ANY,
		.options = O(ALL) | O(YES) | O(JSON),
		.help = "throw a task's changes away",
		.manual =
"Removes what TASK, or the last task of this source, has changed. Its record "
"stays. A task that still runs is refused.\n\n"
"With PATHs, of one task, they are given back to the state of the source, with "
"all that lies below them; the other changes stay. PATHs are named as for "
"diff. The exit status is 1 when the answer was no.",
	},
	{
		.name = "rm", .synopsis = "TASK... | --older-than DURATION | --all",
		.command_from = NO_COMMAND, .max_operands = ANY,
		.options = O(ALL) | O(OLDER_THAN) | O(CHANGES) | O(JSON),
		.help = "remove the records of tasks that have ended",
		.manual =
"Removes all that is left of each TASK: its record, its policy, what its "
"commands printed. A task that runs is refused, and so is one that holds "
"changes or what undo would take back, unless --changes is given; of --all and "
"--older-than such tasks are left out. What was promoted of a removed task "
"stays, but cannot be undone any more. Records without changes go by themselves after 90 days.\n\n"
"\tpinfold rm t-6znkfzn6nj57pmgo\n"
"\tpinfold rm --older-than 7d",
	},
	{
		.name = "policy", .synopsis = "check FILE | show [FILE]",
		.words = "check show",
		.command_from = NO_COMMAND, .min_operands = 1,
		.max_operands = 2, .missing = "check or show is needed",
		.options = O(POLICY) | O(PRESET) | O(JSON),
		.help = "check a policy, or show what one permits",
		.manual =
"check reads a policy without using it, names every fault with line and "
"column, and then ends with status 1. show prints everything that a policy "
"permits, implicit rules included, and what enforces it on this machine; "
"without FILE it is the policy in force.",
	},
	{
		.name = "doctor", .synopsis = "[VARIABLE...]",
		.command_from = NO_COMMAND, .max_operands = 64,
		.options = O(JSON),
		.help = "say what this machine can enforce",
		.manual =
"Lists the kernel's and the system's mechanisms that pinfold uses, what each "
"missing one costs, and the command that provides it: \"missing\" where nothing "
"can run without it (the status is then 125), \"less\" where something is done "
"in a weaker way, \"unused\" where it is not there and nothing in this version "
"would use it, \"unknown\" where it could not be tried. For each VARIABLE it "
"says whether it is set in the environment, and never to what.",
	},
	{
		.name = "help", .synopsis = "[COMMAND]",
		.command_from = NO_COMMAND, .max_operands = 1, .options = 0,
		.help = "print help on a command",
		.manual = "Prints the help of COMMAND, or the list of them.",
	},
};
const size_t n_verb_rows = ARRAY_SIZE(verb_rows);

const struct verb_row *verb_find(const char *name)
{
	for (size_t i = 0; i < n_verb_rows; i++) {
		if (str_eq(verb_rows[i].name, name))
			return &verb_rows[i];
	}
	return NULL;
}

bool verb_takes(const struct verb_row *verb, enum option_id id)
{
	if (id == OPT_HELP)
		return true;
	return verb && verb->options & OPTION_BIT(id);
}
