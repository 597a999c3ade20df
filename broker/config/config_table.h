/* The table of settings, for the files of this folder only. */
#ifndef PGCURSUS_CONFIG_CONFIG_TABLE_H
#define PGCURSUS_CONFIG_CONFIG_TABLE_H

#include "config/config.h"

enum config_kind {
  CONFIG_TEXT,     /* char *                                        */
  CONFIG_DATABASE, /* char *, a connection string: shown masked     */
  CONFIG_BOOLEAN,  /* bool                                          */
  CONFIG_INTEGER,  /* int64_t                                       */
  CONFIG_COUNT,    /* unsigned                                      */
  CONFIG_BYTES,    /* size_t                                        */
  CONFIG_REAL,     /* double                                        */
  CONFIG_DURATION, /* int64_t milliseconds, written 30m, 1h30m, 5s  */
  CONFIG_CHOICE,   /* unsigned, the index into `choices`            */
  CONFIG_ADDRESS,  /* struct config_address                         */
  CONFIG_USERS,    /* struct config_users                           */
  CONFIG_GROUPS,   /* struct config_groups                          */
};

enum config_source {
  CONFIG_FROM_DEFAULT,
  CONFIG_FROM_FILE,
  CONFIG_FROM_ENVIRONMENT,
  CONFIG_FROM_FLAG
};

enum {
  CONFIG_RELOADABLE = 1u << 0, /* may change at SIGHUP */
  CONFIG_NOT_IN_FILE = 1u << 1,
  CONFIG_ALIAS = 1u << 3,      /* another row shows the outcome (config_check.c) */
  CONFIG_MAY_BE_OFF = 1u << 2, /* an address that "" or "off" switches off */
};

struct config_setting {
  const char *name; /* as in YAML */
  enum config_kind kind;
  unsigned flags;
  size_t offset; /* in struct config */
  const char *default_text;
  /* Of numbers. Below `minimum` the default is taken, with a warning (commands-1 section 6); above
   * `maximum` is an error, as nobody writes a number that large to get the default. */
  int64_t minimum, maximum;
  const char *const *choices; /* ended by NULL */
  const char *heading;        /* starts a section of --help when not NULL */
  const char *help;           /* one line, with the unit */
};

struct config_origin {
  enum config_source source;
  char *text;
};

extern const struct config_setting config_settings[];
extern const unsigned config_setting_count;

/* Index of the row with this name in any spelling ('-' and '.' count as '_', case does not matter);
 * -1 when there is none. */
int config_setting_find(const char *name);

/* The name is one of the reference's that mean nothing here (files, Raft, internal queues). */
bool config_name_is_ignored(const char *name);

/* The known name nearest to `name`; NULL when nothing is near enough to be meant. */
const char *config_nearest_name(const char *name);

/* `name` as in YAML, lower case with '_'. The caller frees it. */
char *config_canonical_name(const char *name);

#endif
