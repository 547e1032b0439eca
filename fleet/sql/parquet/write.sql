-- DuckDB, after duckdb.sql: fleet.ndjson as fleet.parquet, which is a fraction of it and has columns. The files beside this one make the
-- table of it.
SET preserve_insertion_order = false;
COPY fleet TO 'fleet.parquet' (FORMAT parquet, COMPRESSION zstd);
