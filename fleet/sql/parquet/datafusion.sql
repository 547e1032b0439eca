-- DataFusion: fleet.parquet as one table.
CREATE EXTERNAL TABLE fleet STORED AS PARQUET LOCATION 'fleet.parquet';
