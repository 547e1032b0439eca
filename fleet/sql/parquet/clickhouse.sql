-- ClickHouse: fleet.parquet as one table, with the columns of clickhouse.sql.
CREATE OR REPLACE VIEW fleet AS SELECT * FROM file('fleet.parquet', Parquet, '
  tbl String, run String, host String, grp String, headline Nullable(String), not_judged Nullable(String), started Nullable(String),
  window_index Nullable(Int64), metric Nullable(String), instance Nullable(String), role Nullable(String), unit Nullable(String),
  value Nullable(Float64), is_error Nullable(Bool), rule Nullable(String), title Nullable(String), status Nullable(String),
  is_past Nullable(Bool), culprit Nullable(String), summary Nullable(String), fact Nullable(String), text Nullable(String)
');
