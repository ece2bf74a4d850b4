/*
 * Who commits are by: name and mail address from the caller's own git
 * configuration, the global one. Never from a repository, which a command can
 * write. Read here, not by git: starting git costs more than starting a sandbox.
 */
#ifndef PINFOLD_CLI_GIT_AUTHOR_H
#define PINFOLD_CLI_GIT_AUTHOR_H

#define GIT_AUTHOR_MAX 256

struct git_author {
	char name[GIT_AUTHOR_MAX + 1], email[GIT_AUTHOR_MAX + 1]; /* "": none */
};

/*
 * Reads user.name and user.email of one file's text, later ones replacing
 * earlier ones; everything else in it is passed over. A value that is longer
 * than GIT_AUTHOR_MAX, not UTF-8 or holds control characters or < > counts as
 * none.
 */
void git_author_parse(const char *text, struct git_author *ret);

/*
 * As git reads them: $GIT_CONFIG_GLOBAL alone where it is set, else
 * $XDG_CONFIG_HOME/git/config (~/.config/git/config) and then ~/.gitconfig.
 * Files that they include are not read.
 */
void git_author_read(const char *home, struct git_author *ret);

#endif
