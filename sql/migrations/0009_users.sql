-- Users: principals that may log in, beside those of the nodes' configuration.

-- hash = PBKDF2-HMAC-SHA256(token, salt, iterations). The token itself is nowhere.
CREATE TABLE pgcursus.users (
  principal   text        COLLATE "C" PRIMARY KEY,
  permissions text[]      NOT NULL,
  salt        bytea       NOT NULL CHECK (octet_length(salt) BETWEEN 16 AND 64),
  iterations  int         NOT NULL CHECK (iterations BETWEEN 1000 AND 2000000),
  hash        bytea       NOT NULL CHECK (octet_length(hash) = 32),
  changed_at  timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT principal_is_one_word
    CHECK (octet_length(principal) BETWEEN 1 AND 249 AND principal !~ '[[:space:][:cntrl:],]'
           AND principal <> '*'),
  CONSTRAINT permissions_are_known
    CHECK (cardinality(permissions) > 0
           AND permissions <@ '{admin,topic.read,topic.write,group,transaction,*}'::text[])
);
