#!/bin/sh
# job_must_fail.sh SECONDS COMMAND...: succeeds if the command fails by itself within that time.
seconds=$1
shift
timeout "$seconds" "$@"
status=$?
case $status in
  0) echo "the job succeeded" >&2; exit 1 ;;
  124) echo "the job was still running after $seconds s" >&2; exit 1 ;;
  *) echo "the job failed with $status, as expected" ;;
esac
