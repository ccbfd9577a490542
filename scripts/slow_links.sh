#!/usr/bin/env bash
# Runs an MPI program or a torch job on emulated hosts with slow links between them; see --help.
# shellcheck disable=SC2317  # clean_up is called by a trap
set -euo pipefail

usage() {
  cat <<'END'
scripts/slow_links.sh [--hosts N] [--ranks R] [--rate RATE] [--launcher mpi|torch] [--] COMMAND...

Runs COMMAND with R ranks (1) on each of N hosts (4), which are network namespaces of this machine.
Each host has one link of RATE (200mbit) per direction to a switch. RATE has the syntax of tc; `none`
does not limit the links. Examples:

  scripts/slow_links.sh --hosts 4 --rate 200mbit -- build/release/tools/nf/nf bench all_reduce \
    --transport mpi -b 64M -e 64M --codec waterfill:4,bf16,fp32,mpi_16bit,mpi_fp32 --repeat 5
  scripts/slow_links.sh --launcher torch -- .venv/bin/python bench/step_time.py --routes plain,bf16

mpi (the default) starts the ranks with mpirun. torch starts COMMAND once per rank with the environment
of torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT) and Gloo on the link; if one rank
fails, the others are stopped after 5 seconds.

Needs root, iproute2 (ip, tc), Open MPI (mpirun) for mpi, and a kernel with veth, bridge and tbf.
Namespaces, links and mounts have unique names and are removed on exit, also after an error or a
signal. The exit status is that of mpirun, or of the first rank to fail. See docs/howto/slow_links.md.
END
}

fail() {
  printf 'slow_links: %s\n' "$@" >&2
  exit 2
}

hosts=4 ranks=1 rate=200mbit launcher=mpi
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --hosts | --ranks | --rate | --launcher)
      (($# >= 2)) || fail "$1 needs a value; see --help"
      declare "${1#--}=$2"
      shift 2
      ;;
    --) shift; break ;;
    -*) fail "unknown option $1; see --help" ;;
    *) break ;;
  esac
done
(($# > 0)) || fail "no command: scripts/slow_links.sh [--hosts N] [--rate RATE] -- COMMAND..."
[[ $launcher == mpi || $launcher == torch ]] || fail "--launcher must be mpi or torch, not '$launcher'"
[[ $hosts =~ ^[1-9][0-9]?$ ]] || fail "--hosts must be a number from 1 to 99, not '$hosts'"
[[ $ranks =~ ^[1-9][0-9]?$ ]] || fail "--ranks must be a number from 1 to 99, not '$ranks'"
((EUID == 0)) || fail "needs root to create network namespaces: sudo scripts/slow_links.sh ..."
command -v ip >/dev/null || fail "ip not found: apt-get install iproute2"
command -v tc >/dev/null || fail "tc not found: apt-get install iproute2"
[[ $launcher != mpi ]] || command -v mpirun >/dev/null ||
  fail "mpirun not found: apt-get install openmpi-bin"
command -v "$1" >/dev/null || fail "program $1 not found"

# Always in /tmp, not in TMPDIR: the paths of sockets must be short.
work=$(mktemp -d -p /tmp nf_links.XXXXXX)
name=${work##*.}  # unique, because other runs may be in progress
switch=nf-$name-switch
job=

clean_up() {
  trap - EXIT
  trap '' HUP INT TERM
  local space pids tenths
  if [[ -n $job ]] && kill "$job" 2>/dev/null; then  # mpirun stops its ranks
    for ((tenths = 0; tenths < 50; ++tenths)); do
      kill -0 "$job" 2>/dev/null || break
      sleep 0.1
    done
  fi
  for space in $(ip netns list | awk -v prefix="nf-$name-" 'index($1, prefix) == 1 { print $1 }'); do
    pids=$(ip netns pids "$space")
    # Without the wait, the shell prints a line per process.
    # shellcheck disable=SC2086  # a list of words
    if [[ -n $pids ]]; then { kill -KILL $pids && wait $pids; } 2>/dev/null || true; fi
    ip netns delete "$space" || true
  done
  for ((host = 1; host <= hosts; ++host)); do umount "$work/$host/shm" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

shape() {  # namespace device
  if [[ $rate == none ]]; then return; fi
  tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 128kb latency 50ms ||
    fail "tc cannot limit a link to '$rate': wrong syntax (man tc), or a kernel without tbf"
}

# The switch is a namespace as well, with an address from which mpirun reaches all hosts.
ip netns add "$switch" || fail "cannot create network namespaces (a container without the privilege?)"
ip -n "$switch" link set lo up
ip -n "$switch" link add bridge type bridge || fail "this kernel has no bridge"
ip -n "$switch" address add 10.77.0.254/24 dev bridge
ip -n "$switch" link set bridge up

add_host() {  # number from 1
  local space=nf-$name-$1
  ip netns add "$space"
  ip -n "$switch" link add "port$1" type veth peer name eth0 netns "$space" ||
    fail "this kernel has no veth"
  ip -n "$switch" link set "port$1" master bridge up
  ip -n "$space" link set lo up
  ip -n "$space" link set eth0 up
  ip -n "$space" address add "10.77.0.$1/24" dev eth0
  shape "$space" eth0       # what the host sends
  shape "$switch" "port$1"  # what it receives
  mkdir -p "$work/$1/shm"
  mount -t tmpfs "nf-$name" "$work/$1/shm"  # separate shared memory: ranks identify a host by it
}

for ((host = 1; host <= hosts; ++host)); do add_host "$host"; done

run_mpi() {  # command
  # mpirun calls this instead of ssh, with an address and a command line. Different host names and
  # socket folders prevent Open MPI from treating the hosts as one.
  cat >"$work/enter" <<END
#!/usr/bin/env bash
host=\${1##*.}
shift
export TMPDIR=$work/\$host
exec ip netns exec "nf-$name-\$host" unshare --uts bash -c "hostname nf\$host && \$*"
END
  chmod +x "$work/enter"

  # The ranks share the cores of this machine: do not bind them to cores, and yield instead of
  # spinning. Use TCP only, over the links only.
  # shellcheck disable=SC2054  # the comma is part of Open MPI's syntax
  local options=(
    --allow-run-as-root -n $((hosts * ranks)) --bind-to none
    --host "$(seq -s , -f "10.77.0.%g:$ranks" "$hosts")"
    --mca plm_rsh_agent "$work/enter" --mca plm_rsh_no_tree_spawn 1
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24
    --mca oob_tcp_if_include 10.77.0.0/24 --mca mpi_yield_when_idle 1
  )
  # In the background, so that this script handles signals at once.
  TMPDIR=$work ip netns exec "$switch" mpirun "${options[@]}" "$@" &
  job=$!
  local status=0
  wait "$job" || status=$?
  job=
  exit "$status"
}

run_torch() {  # command
  local host rank ended status tenths
  local -A rank_of=()
  # The store resolves the names of its clients, but no name server is reachable.
  { cat /etc/hosts; seq "$hosts" | sed 's/.*/10.77.0.& nf&\n::ffff:10.77.0.& nf&/'; } >"$work/hosts"
  export WORLD_SIZE=$((hosts * ranks)) LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=10.77.0.1 MASTER_PORT=29500
  export GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  for ((rank = 0; rank < WORLD_SIZE; ++rank)); do
    host=$((rank / ranks + 1))
    # shellcheck disable=SC2016  # expanded by the inner shell, in its own mount namespace
    RANK=$rank LOCAL_RANK=$((rank % ranks)) ip netns exec "nf-$name-$host" \
      bash -c 'mount --bind "$0" /etc/hosts && mount --bind "$1" /dev/shm && shift && exec "$@"' \
      "$work/hosts" "$work/$host/shm" "$@" &
    rank_of[$!]=$rank
  done
  while ((${#rank_of[@]} > 0)); do
    status=0
    wait -n -p ended "${!rank_of[@]}" 2>/dev/null || status=$?  # reported below
    if ((status != 0)); then
      echo "slow_links: rank ${rank_of[$ended]} ended with status $status" >&2
      for ((tenths = 0; tenths < 50; ++tenths)); do  # give the others time to report errors
        [[ -n $(jobs -r) ]] || break
        sleep 0.1
      done
      exit "$status"
    fi
    unset "rank_of[$ended]"
  done
}

"run_$launcher" "$@"
