/* Is there a token in a file of settings? On the safe side: a doubt is a yes. */
#include "base/cleanup.h"
#include "cli/agent_table.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define VALUE_MIN 8  /* shorter values are no tokens */
#define TOKEN_MIN 16 /* what follows the beginning of a known form */

static const char *const words[] = {
	"token", "secret", "passw", "api_key", "apikey", "api-key",
	"access_key", "private_key", "credential", "authorization", "bearer",
};

static const char *const forms[] = {
	"sk-", "sk_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-",
	"xoxp-", "AIza", "AKIA", "eyJ", "npm_", "hf_", "gsk_", "ya29.",
	"-----BEGIN",
};

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static size_t name_len(const char *s)
{
	size_t n = 0;

	while (is_name_char(s[n]))
		n++;
	return n;
}

/* A value of n bytes that says where the token is, or no text at all. */
static bool is_reference(const char *s, size_t n)
{
	size_t capitals = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

	return s[0] == '$' || !strncmp(s, "{env:", 5) ||
	       !strncmp(s, "{file:", 6) || capitals >= n;
}

/* at is behind a word that tokens are named by: is something assigned? */
static bool assigns(const char *at)
{
	size_t n;

	at += name_len(at);
	at += strspn(at, " \t\"'");
	if (*at != '=' && *at != ':')
		return false;
	at += 1 + strspn(at + 1, " \t\r\n\"'");
	n = strcspn(at, " \t\r\n\"',}]#");
	if (!strncasecmp(at, "bearer ", 7) || !strncasecmp(at, "basic ", 6))
		return !memchr(at, '$', strcspn(at, "\n"));
	return n >= VALUE_MIN && !is_reference(at, n);
}

static bool begins_form(const char *text, const char *at)
{
	if (at > text && is_name_char(at[-1]))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		size_t n = strlen(forms[i]);

		if (!strncmp(at, forms[i], n) &&
		    (forms[i][0] == '-' || name_len(at + n) >= TOKEN_MIN))
			return true;
	}
	return false;
}

bool agent_holds_token(const char *text)
{
	for (const char *at = text; *at; at++) {
		if (begins_form(text, at))
			return true;
		for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
			size_t n = strlen(words[i]);

			if (!strncasecmp(at, words[i], n) && assigns(at + n))
				return true;
		}
	}
	return false;
}
