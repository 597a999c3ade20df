-- groups: every registered consumer group.
--
-- state is Stable while the group has members, else Dead.
CREATE OR REPLACE VIEW pgcursus.groups AS
SELECT g.name AS "group",
       CASE WHEN members.n > 0 THEN 'Stable' ELSE 'Dead' END AS state,
       g.generation,
       members.n AS members,
       g.selector,
       g.selector_text,
       g.topics,
       (SELECT sum(c.n) FROM unnest(g.partition_counts) AS c (n)) AS partitions,
       g.last_rebalance,
       g.registration_epoch,
       g.registered_at,
       g.group_id
  FROM pgcursus.group_definitions g
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM pgcursus.group_members m
                       WHERE m.group_id = g.group_id) members
 WHERE g.registered;
