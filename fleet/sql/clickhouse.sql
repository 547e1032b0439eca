-- ClickHouse: the rows of `rdiag fleet runs --format rows > fleet.ndjson` as one table. Of many files: 'day=*/*.ndjson.gz'. A server
-- reads them in its folder user_files, or from a bucket by s3(…) in the place of file(…). Where a group has more than 8192 hosts, its median
-- is that of 8192 of them.
CREATE OR REPLACE VIEW fleet AS SELECT * FROM file('fleet.ndjson', JSONEachRow, '
  tbl String, run String, host String, grp String, headline Nullable(String), not_judged Nullable(String), started Nullable(String),
  window_index Nullable(Int64), metric Nullable(String), instance Nullable(String), role Nullable(String), unit Nullable(String),
  value Nullable(Float64), is_error Nullable(Bool), rule Nullable(String), title Nullable(String), status Nullable(String),
  is_past Nullable(Bool), culprit Nullable(String), summary Nullable(String), fact Nullable(String), text Nullable(String)
');
