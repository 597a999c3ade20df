/* The `user` family: principals of the database's table, for administrators.
 *
 * The only commands that speak to PostgreSQL instead of a broker, and the only file that knows
 * libpq. A token is hashed here: neither the server nor its log ever sees it. */
#include <errno.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/token_hash.h"
#include "cli.h"

enum { TOKEN_LENGTH = 43, TOKEN_TYPED_MAX = 4096, TOKEN_SHORT = 20 };

/* ---- the database ---------------------------------------------------------------------------- */

#define DATABASE_OPTION(target)                                                                \
  {                                                                                            \
    0, "database", "DSN", OPTION_TEXT, (target), 0, 0,                                         \
        "The brokers' database, as a libpq connection string or URI, for a member of "         \
        "pgcursus_owner. Keep a password in ~/.pgpass. Default: $PGCURSUS_DATABASE, else the " \
        "PG* variables."                                                                       \
  }

static void ignore_notice(void *context, const char *message) {
  (void)context;
  (void)message;
}

static PGconn *connect_database(const char *dsn, int *status) {
  if (!dsn) dsn = getenv("PGCURSUS_DATABASE");
  PGconn *database = PQconnectdb(dsn ? dsn : "");
  if (PQstatus(database) == CONNECTION_OK) {
    PQsetNoticeProcessor(database, ignore_notice, NULL);
    return database;
  }
  char *message = PQerrorMessage(database);
  message[strcspn(message, "\n")] = '\0';
  *status = cli_complain("database: %s", message);
  PQfinish(database);
  return NULL;
}

/* Status 1 for what the functions refuse, 2 for the rest. */
static int report_database(const PGconn *database, const PGresult *result) {
  const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  (void)cli_complain("%s", message ? message : PQerrorMessage(database));
  bool refused = state && (strcmp(state, "22023") == 0 || strcmp(state, "23505") == 0 ||
                           strcmp(state, "P0002") == 0);
  return refused ? EXIT_REFUSED : EXIT_UNUSABLE;
}

/* ---- where a token comes from ---------------------------------------------------------------- */

static bool read_line(FILE *file, char *line, size_t size) {
  if (!fgets(line, (int)size, file)) return false;
  line[strcspn(line, "\r\n")] = '\0';
  return true;
}

static int read_token_file(const char *path, char *token, size_t size) {
  FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
  if (!file) return cli_complain("cannot read a token from %s: %s", path, strerror(errno));
  bool read = read_line(file, token, size);
  if (file != stdin) fclose(file);
  return read && *token ? EXIT_DONE : cli_complain("there is no token in %s", path);
}

/* Asks on the terminal, without showing what is typed. */
static bool ask(FILE *terminal, const char *question, char *answer, size_t size) {
  struct termios shown, hidden;
  bool is_terminal = tcgetattr(fileno(terminal), &shown) == 0;
  hidden = shown;
  hidden.c_lflag &= ~(tcflag_t)ECHO;
  if (is_terminal) (void)tcsetattr(fileno(terminal), TCSAFLUSH, &hidden);
  fputs(question, terminal);
  fflush(terminal);
  bool read = read_line(terminal, answer, size);
  if (is_terminal) (void)tcsetattr(fileno(terminal), TCSAFLUSH, &shown);
  fputc('\n', terminal);
  return read;
}

static int ask_token(char *token, size_t size) {
  char again[TOKEN_TYPED_MAX + 2];
  FILE *terminal = fopen("/dev/tty", "r+");
  if (!terminal) return cli_complain("there is no terminal to ask for the token on");
  bool read =
      ask(terminal, "Token: ", token, size) && ask(terminal, "Token, again: ", again, sizeof again);
  fclose(terminal);
  bool same = read && strcmp(token, again) == 0;
  explicit_bzero(again, sizeof again);
  if (!read || !*token) return cli_complain("no token was given");
  return same ? EXIT_DONE : cli_complain("the two tokens differ");
}

/* 258 random bits in the letters of base64url. */
static void make_token(char token[TOKEN_LENGTH + 1]) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  uint8_t bytes[TOKEN_LENGTH];
  token_random(bytes, sizeof bytes);
  for (int i = 0; i < TOKEN_LENGTH; i++) token[i] = letters[bytes[i] & 63];
  token[TOKEN_LENGTH] = '\0';
  explicit_bzero(bytes, sizeof bytes);
}

/* ---- user add -------------------------------------------------------------------------------- */

struct user_add {
  const char *database, *permissions;
  bool ask, keep_token, replace;
};

static int choose_token(const struct cli *cli, const struct user_add *add, bool *is_made,
                        char *token, size_t size) {
  int status = EXIT_DONE;
  *is_made = !cli->token_file && !add->ask;
  if (*is_made) {
    make_token(token);
    return status;
  }
  status = cli->token_file ? read_token_file(cli->token_file, token, size) : ask_token(token, size);
  if (status != EXIT_DONE) return status;
  if (strlen(token) > TOKEN_TYPED_MAX) {
    return cli_complain("a token has at most %d bytes", TOKEN_TYPED_MAX);
  }
  if (strlen(token) < TOKEN_SHORT && !cli->quiet) {
    fprintf(stderr,
            "pgcursus: a token of %zu characters may be guessed; without --token-file and "
            "--ask a random one is made\n",
            strlen(token));
  }
  return status;
}

/* "a,b" as the literal of an array; the function says what is wrong with a name. */
static struct buffer array_literal(const char *names) {
  struct buffer literal = {0};
  buffer_append_text(&literal, "{");
  for (const char *name = names; *name;) {
    size_t length = strcspn(name, ",");
    buffer_append_text(&literal, name == names ? "\"" : ",\"");
    for (size_t i = 0; i < length; i++) {
      if (!strchr("\"\\ \t", name[i])) buffer_append(&literal, name + i, 1);
    }
    buffer_append_text(&literal, "\"");
    name += length + (name[length] == ',');
  }
  buffer_append(&literal, "}", 2);
  return literal;
}

/* `token` NULL keeps the one there is. */
static PGresult *store_user(PGconn *database, const char *principal, const struct user_add *add,
                            const char *token) {
  uint8_t salt[TOKEN_SALT_SIZE], hash[TOKEN_HASH_SIZE];
  char iterations[16];
  snprintf(iterations, sizeof iterations, "%d", TOKEN_HASH_ITERATIONS);
  if (token) {
    token_random(salt, sizeof salt);
    token_hash(slice_text(token), slice_of(salt, sizeof salt), TOKEN_HASH_ITERATIONS, hash);
  }
  struct buffer permissions = array_literal(add->permissions);
  const char *values[] = {principal,
                          (const char *)permissions.data,
                          token ? (const char *)salt : NULL,
                          token ? iterations : NULL,
                          token ? (const char *)hash : NULL,
                          add->replace || add->keep_token ? "t" : "f"};
  const int lengths[] = {0, 0, sizeof salt, 0, sizeof hash, 0};
  const int formats[] = {0, 0, 1, 0, 1, 0};
  PGresult *result = PQexecParams(database,
                                  "SELECT pgcursus.set_user($1::text, $2::text[], $3::bytea, "
                                  "$4::int, $5::bytea, $6::boolean)",
                                  6, NULL, values, lengths, formats, 0);
  buffer_release(&permissions);
  return result;
}

static int add_user(struct cli *cli, const struct user_add *add, const char *principal) {
  char token[TOKEN_TYPED_MAX + 2];
  bool is_made = false;
  int status = EXIT_DONE;
  if (!add->keep_token) status = choose_token(cli, add, &is_made, token, sizeof token);
  PGconn *database = status == EXIT_DONE ? connect_database(add->database, &status) : NULL;
  if (!database) return status;
  PGresult *result = store_user(database, principal, add, add->keep_token ? NULL : token);
  if (PQresultStatus(result) != PGRES_TUPLES_OK) {
    status = report_database(database, result);
  } else {
    if (!cli->quiet) {
      bool is_new = strcmp(PQgetvalue(result, 0, 0), "t") == 0;
      fprintf(stderr, "user %s %s%s\n", principal, is_new ? "added" : "changed",
              is_made ? "; its token is shown this once" : "");
    }
    if (is_made) puts(token);
    status = cli_finish_output();
  }
  explicit_bzero(token, sizeof token);
  PQclear(result);
  PQfinish(database);
  return status;
}

int cmd_user_add(struct cli *cli, int argc, char **argv) {
  struct user_add add = {0};
  const struct option_spec options[] = {
      DATABASE_OPTION(&add.database),
      {0, "permissions", "LIST", OPTION_TEXT, &add.permissions, 0, 0,
       "What the user may do: admin, topic.read, topic.write, group, transaction or *, separated "
       "by commas. Required."},
      {0, "replace", NULL, OPTION_FLAG, &add.replace, 0, 0,
       "Give a user that exists a new token and these permissions."},
      {0, "keep-token", NULL, OPTION_FLAG, &add.keep_token, 0, 0, "Change the permissions only."},
      {0, "ask", NULL, OPTION_FLAG, &add.ask, 0, 0, "Ask for the token on the terminal."},
  };
  struct option_usage usage = {
      .command = "user add",
      .synopsis = "PRINCIPAL --permissions LIST [options]",
      .description =
          "Adds a user to the table in the database. All nodes know it at once. Its token is the "
          "first line of --token-file (- is standard input), asked for with --ask, or made at "
          "random and printed on stdout. Only a salted hash of it is stored.",
      .examples =
          "  pgcursus user add billing --permissions topic.read,group > billing.token\n"
          "  pgcursus --user billing --token-file billing.token consume orders\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0],
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  if (!add.permissions) return cli_complain("user add: --permissions is missing");
  return add_user(cli, &add, argv[0]);
}

/* ---- user remove, user list ------------------------------------------------------------------ */

int cmd_user_remove(struct cli *cli, int argc, char **argv) {
  const char *dsn = NULL;
  const struct option_spec options[] = {DATABASE_OPTION(&dsn)};
  struct option_usage usage = {
      .command = "user remove",
      .synopsis = "PRINCIPAL [options]",
      .description =
          "Removes a user from the table. Its open connections are refused at their next "
          "request.",
      .options = options,
      .option_count = 1,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  PGconn *database = connect_database(dsn, &status);
  if (!database) return status;
  const char *values[] = {argv[0]};
  PGresult *result = PQexecParams(database, "SELECT pgcursus.remove_user($1::text)", 1, NULL,
                                  values, NULL, NULL, 0);
  if (PQresultStatus(result) != PGRES_TUPLES_OK) {
    status = report_database(database, result);
  } else if (strcmp(PQgetvalue(result, 0, 0), "t") != 0) {
    (void)cli_complain("there is no user %s in the table", argv[0]);
    status = EXIT_REFUSED;
  } else {
    status = EXIT_DONE;
  }
  PQclear(result);
  PQfinish(database);
  return status;
}

int cmd_user_list(struct cli *cli, int argc, char **argv) {
  const char *dsn = NULL;
  const struct option_spec options[] = {DATABASE_OPTION(&dsn)};
  struct option_usage usage = {
      .command = "user list",
      .synopsis = "[options]",
      .description =
          "Prints the users of the table, one a line: the principal, its permissions and "
          "when it was changed last, separated by tabs. Users of the brokers' "
          "configuration are not among them.",
      .options = options,
      .option_count = 1,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  PGconn *database = connect_database(dsn, &status);
  if (!database) return status;
  PGresult *result =
      PQexec(database,
             "SELECT principal, array_to_string(permissions, ','), "
             "to_char(changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') "
             "FROM pgcursus.list_users()");
  if (PQresultStatus(result) != PGRES_TUPLES_OK) {
    status = report_database(database, result);
  } else {
    for (int row = 0; row < PQntuples(result); row++) {
      printf("%s\t%s\t%s\n", PQgetvalue(result, row, 0), PQgetvalue(result, row, 1),
             PQgetvalue(result, row, 2));
    }
    status = cli_finish_output();
  }
  PQclear(result);
  PQfinish(database);
  return status;
}
