#include "tree.h"

#include "base/paths.h"
#include "workspace/secrets.h"

static struct strlist none;
static int cache_fd = -1;

static void find(struct secrets *s, const struct strlist *globs, int cache)
{
	struct error err = {0};

	if (secrets_find(s, src_fd, "/src", globs ? globs : &none, &none,
			 cache, &err))
		fail_msg("%s", err.text);
	strlist_sort(&s->found);
	strlist_sort(&s->denied);
}

static bool is_secret(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[64] = "";

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	return secrets_is_file(dir, slash ? slash + 1 : path);
}

static void names_of_secrets_are_known_and_samples_of_them(void **state)
{
	static const char *const secret[] = {
		".env", ".env.local", ".npmrc", ".netrc", "id_ed25519", "a.pem",
		"server.key", "credentials.json", "service-account-x.json",
		".ENV", "Id_RSA", "prod.tfstate.backup", "x.auto.tfvars.json",
		".docker/config.json", "a/.kube/config", ".ssh/work",
		".SSH/known_hosts", ".aws/credentials", ".config/gh/hosts.yml",
		".config/gcloud/credentials.db", ".m2/settings.xml",
	};
	static const char *const plain[] = {
		".env.example", ".env.sample", ".envrc", "env", "key", "x.keys",
		"id_ed25519.pub", "a.pem.txt", "README.md", ".env.template",
		"config", "config.json", "docker/config.json", "x.ssh/work",
		"gh/hosts.yml", ".config/settings.xml", "a.kube/config",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(secret); i++) {
		if (!is_secret(secret[i]))
			fail_msg("%s", secret[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		if (is_secret(plain[i]))
			fail_msg("%s", plain[i]);
	}
}

static void they_are_found_on_three_levels(void **state)
{
	AUTO_SECRETS struct secrets s = {0};

	(void)state;
	make_dir("src/a");
	make_dir("src/a/b");
	make_dir("src/a/b/c");
	make_dir("src/node_modules");
	write_file("src/.env", "");
	write_file("src/a/k.pem", "");
	write_file("src/a/b/.npmrc", "");
	write_file("src/a/b/c/.env", "");
	write_file("src/node_modules/.env", "");
	make_dir("src/a/credentials");
	find(&s, NULL, -1);
	assert_int_equal(s.found.n, 3);
	assert_string_equal(s.found.items[0], ".env");
	assert_string_equal(s.found.items[1], "a/b/.npmrc");
	assert_string_equal(s.found.items[2], "a/k.pem");
	assert_int_equal(s.denied.n, 0);
}

static void globs_are_expanded_at_any_depth(void **state)
{
	AUTO_SECRETS struct secrets s = {0};
	AUTO_STRLIST struct strlist globs = {0};

	(void)state;
	make_dir("src/a");
	make_dir("src/a/b");
	make_dir("src/a/b/c");
	make_dir("src/node_modules");
	make_dir("src/private");
	write_file("src/private/x.txt", "");
	write_file("src/a/b/c/x.txt", "");
	write_file("src/node_modules/y.txt", "");
	strlist_add(&globs, "**/*.txt");
	strlist_add(&globs, "priv*");
	find(&s, &globs, -1);
	assert_int_equal(s.denied.n, 3);
	assert_string_equal(s.denied.items[0], "a/b/c/x.txt");
	assert_string_equal(s.denied.items[1], "node_modules/y.txt");
	/* A directory is hidden as a whole. */
	assert_string_equal(s.denied.items[2], "private");
}

static void make_old(const char *path)
{
	const struct timespec times[2] = {{1000, 0}, {1000, 0}};

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void what_was_found_is_kept_until_a_directory_changes(void **state)
{
	struct secrets s = {0};

	(void)state;
	make_dir("src/a");
	write_file("src/a/.env", "");
	make_dir("cache");
	cache_fd = open("cache", O_PATH | O_DIRECTORY);
	make_old("src/a");
	/* A change of a moment ago proves nothing yet. */
	find(&s, NULL, cache_fd);
	assert_false(s.cached);
	secrets_done(&s);
	usleep(150000);
	find(&s, NULL, cache_fd);
	secrets_done(&s);
	find(&s, NULL, cache_fd);
	assert_true(s.cached);
	assert_int_equal(s.found.n, 1);
	secrets_done(&s);
	write_file("src/a/.npmrc", "");
	find(&s, NULL, cache_fd);
	assert_false(s.cached);
	assert_int_equal(s.found.n, 2);
	secrets_done(&s);
	close(cache_fd);
}

static void a_damaged_cache_is_no_cache(void **state)
{
	struct secrets s = {0};
	DIR *dir;
	struct dirent *e;

	(void)state;
	write_file("src/.env", "");
	make_dir("cache");
	cache_fd = open("cache", O_RDONLY | O_DIRECTORY);
	usleep(150000);
	find(&s, NULL, cache_fd);
	secrets_done(&s);
	dir = fdopendir(dup(cache_fd));
	while ((e = readdir(dir))) {
		char path[512];

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "cache/%s", e->d_name);
		assert_int_equal(truncate(path, 9), 0);
	}
	closedir(dir);
	find(&s, NULL, cache_fd);
	assert_false(s.cached);
	assert_int_equal(s.found.n, 1);
	secrets_done(&s);
	close(cache_fd);
}

static void what_git_tracks_is_left_alone(void **state)
{
	AUTO_SECRETS struct secrets s = {0};
	static const char index[] = "DIRC....\0\x04.env\0\0\0....\0\x09"
				    "a/b/x.key\0";
	int fd;

	(void)state;
	make_dir("src/.git");
	fd = open("src/.git/index", O_WRONLY | O_CREAT, 0644);
	assert_int_equal(write(fd, index, sizeof(index)), sizeof(index));
	close(fd);
	write_file("src/.env", "");
	write_file("src/x.key", "");
	find(&s, NULL, -1);
	assert_int_equal(s.found.n, 1);
	assert_string_equal(s.found.items[0], "x.key");
}

static void scrub(const char *text, const char *want)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	int r = secrets_scrub_config(text, strlen(text), &out);

	assert_int_equal(r, want != NULL);
	assert_string_equal(buf_str(&out), want ? want : "");
}

static void secrets_of_a_git_configuration_are_left_out(void **state)
{
	(void)state;
	scrub("[core]\n\tbare = false\n[remote \"o\"]\n"
	      "\turl = git@host:x.git\n\turl = ssh://git@host/x\n"
	      "\turl = https://host/x@y\n", NULL);
	scrub("\turl = https://me:tok@host/x.git\n",
	      "\turl = https://host/x.git\n");
	scrub("\turl = https://ghp_x@host/x\n", "\turl = https://host/x\n");
	scrub("\turl = ftp://me:p@host/x\n", "\turl = ftp://me@host/x\n");
	scrub("[url \"https://a:b@c/\"]\n\tinsteadOf = https://d:e@f/ # x\n",
	      "[url \"https://c/\"]\n\tinsteadOf = https://f/ # x\n");
	scrub("\textraheader = AUTHORIZATION: basic abc\nx = y",
	      "\textraheader =\nx = y");
	scrub("smtpPass=abc\n", "smtpPass=\n");
	scrub("[imap] pass = abc\n", "[imap] pass =\n");
	scrub("pat = abc\n", "pat =\n");
	scrub("cookie=a=b\nauthorization = x\n", "cookie=\nauthorization =\n");
	scrub("url = https://h/x?private_token=abc\n", "url =\n");
	scrub("a = !TOKEN=abc curl\n", "a =\n");
	scrub("a = !curl -H 'Authorization: token abc'\n", "a =\n");
	scrub("a = !curl -H \"Authorization: token $TOKEN\"\n", NULL);
	scrub("cookieFile = ~/x\ncompat = 1\n", NULL);
	scrub("[http] extraheader = a\n[core] bare = false\n",
	      "[http] extraheader =\n[core] bare = false\n");
	scrub("[http \"https://a:b@c/]\\\"\"] extraHeader=a\n",
	      "[http \"https://c/]\\\"\"] extraHeader=\n");
	scrub("\textraheader = \\\n\t\ta \\\nb\n\tx = y\n",
	      "\textraheader =\n\tx = y\n");
	scrub("url = \"https:/\\\n/me:to\\\nk@h/x\"\n", "url = \"https://h/x\"\n");
	scrub("# c \\\ntoken = a\nx = y # \\\ntoken = b",
	      "# c \\\ntoken =\nx = y # \\\ntoken =");
	scrub("url = https://me:t#k@h/x\nurl = \"https://m:t\\\"k@h/\"\n",
	      "url = https://h/x\nurl = \"https://h/\"\n");
	scrub("proxy = me:tok@h:1\nproxy = h:1\n", "proxy = h:1\nproxy = h:1\n");
	scrub("helper = \"!f() { echo password=abc; }; f\"\n", "helper =\n");
	scrub("helper = \"!f() { echo password=$x; }; f\"\nx = a\\\nb\n", NULL);
}

static void paths_are_put_in_order_and_covered_ones_dropped(void **state)
{
	AUTO_STRLIST struct strlist l = {0};
	static const char *const in[] = {"b", "a.c", "a/b/c", "a/b", "b", "a/x",
					 "a/b/d"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(in); i++)
		strlist_add(&l, in[i]);
	paths_normalise(&l);
	assert_int_equal(l.n, 4);
	assert_string_equal(l.items[0], "a/b");
	assert_string_equal(l.items[1], "a/x");
	assert_string_equal(l.items[2], "a.c");
	assert_true(paths_have(&l, "a.c"));
	assert_false(paths_have(&l, "a"));
	assert_false(paths_have(&l, "a/b/c"));
	assert_true(paths_cover(&l, "a/b/c"));
	assert_true(paths_cover(&l, "a.c"));
	assert_false(paths_cover(&l, "a.cc"));
	assert_false(paths_cover(&l, "a"));
	assert_false(paths_cover(&l, "a/bb"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_secrets_are_known_and_samples_of_them),
		EACH(they_are_found_on_three_levels),
		EACH(globs_are_expanded_at_any_depth),
		EACH(what_was_found_is_kept_until_a_directory_changes),
		EACH(a_damaged_cache_is_no_cache),
		EACH(what_git_tracks_is_left_alone),
		cmocka_unit_test(secrets_of_a_git_configuration_are_left_out),
		cmocka_unit_test(paths_are_put_in_order_and_covered_ones_dropped),
	};

	return cmocka_run_group_tests_name("secrets", tests, NULL, NULL);
}
