/* Words that users of other tools may well try. */
#ifndef PINFOLD_CLI_FOREIGN_H
#define PINFOLD_CLI_FOREIGN_H

/* Why there is no such option or command; NULL: nothing is known of it. */
const char *foreign_missing(const char *word);

/* What does the same here; NULL likewise. */
const char *foreign_same(const char *word);

#endif
