-- A member's id follows from the group's generation: the function has a parameter more.
DROP FUNCTION IF EXISTS pgcursus.new_member_id(bigint, text);
