// Every constant of the cycle-level model, with its source.
//
//   [jedec]      JESD79-5, DDR5 SDRAM: speed bin DDR5-4800B (40-39-39), 16 Gb devices, x8
//   [ramulator]  Ramulator 2, src/dram/impl/DDR5.cpp: how [jedec]'s values combine
//   [cxl]        CXL 2.0 specification, chapter 4: flits of 68 bytes, four slots of 16 bytes each
//   [pcie]       PCI Express Base 5.0: 32 GT/s per lane, 128b/130b
//   [intel]      Intel 64 and IA-32 Optimization Reference Manual: Skylake server, LLC latency
//   [ours]       a decision of this model
#pragma once

#include <cmath>
#include <cstdint>

namespace nf::cxl {

using Picoseconds = std::int64_t;

// DDR5-4800 makes two transfers per clock of 2400 MHz [jedec].
constexpr Picoseconds memory_clocks(Picoseconds clocks) {
  constexpr Picoseconds kMegahertz = 2400;
  return (clocks * 1'000'000 + kMegahertz / 2) / kMegahertz;
}

// One 32-bit sub-channel of DDR5-4800; a line is one burst of 16.
struct DramTiming {
  std::uint32_t bank_groups = 8;                       // [jedec] 16 Gb x8
  std::uint32_t banks_of_group = 4;                    // [jedec]
  Picoseconds burst = memory_clocks(8);                // [jedec] BL16
  Picoseconds read_latency = memory_clocks(40);        // CL [jedec]
  Picoseconds write_latency = memory_clocks(38);       // CWL = CL - 2 [jedec]
  Picoseconds activate_to_column = memory_clocks(39);  // tRCD [jedec]
  Picoseconds precharge = memory_clocks(39);           // tRP [jedec]
  Picoseconds row_active = 32'000;                     // tRAS [jedec]
  Picoseconds read_to_precharge = 7'500;               // tRTP [jedec]
  Picoseconds write_recovery = 30'000;                 // tWR [jedec]
  Picoseconds activate_any = memory_clocks(8);         // tRRD_S [jedec]
  Picoseconds activate_group = 5'000;                  // tRRD_L [jedec]
  Picoseconds four_activates = memory_clocks(32);      // tFAW, pages of 1 KB [jedec]
  Picoseconds column_any = memory_clocks(8);           // tCCD_S [jedec]
  Picoseconds read_group = 5'000;                      // tCCD_L [jedec]
  Picoseconds write_group = 10'000;                    // tCCD_L_WR2, no read-modify-write [jedec]
  Picoseconds write_to_read_any = 2'500;               // tWTR_S, after the burst [jedec]
  Picoseconds write_to_read_group = 10'000;            // tWTR_L [jedec]
  Picoseconds read_to_write =
      memory_clocks(40 + 8 + 2 - 38 + 2);    // CL + BL/2 + 2 - CWL + 2 [ramulator]
  Picoseconds refresh_interval = 3'900'000;  // tREFI: every bank once in this time [jedec]
  Picoseconds refresh = 130'000;             // tRFCsb, 16 Gb: one bank of every group [jedec]

  std::uint64_t seed = 0;  // of the random delays of refreshes

  // From an activate to the next one of the same bank, with auto-precharge.
  constexpr Picoseconds read_cycle() const {
    const Picoseconds by_column = activate_to_column + read_to_precharge;
    return (by_column > row_active ? by_column : row_active) + precharge;
  }
  // From a column write to the next activate of the same bank.
  constexpr Picoseconds write_to_activate() const {
    return write_latency + burst + write_recovery + precharge;
  }
};

// A link of eight lanes, full duplex.
struct LinkTiming {
  double bytes_per_second = 8 * 32e9 / 8 * 128 / 130;  // x8 [pcie]
  double slot_bytes = 68.0 / 4;                        // [cxl]
  double data_slots = 5;  // a header and four slots of data: a write, or the data of a read [cxl]
  double request_slots = 1;   // a read request [cxl]
  double answer_slots = 0.5;  // a completion without data, two per slot [cxl]

  Picoseconds time(double slots) const {
    return std::llround(slots * slot_bytes / bytes_per_second * 1e12);
  }
};

struct Timing {
  // The controller's clock: about what the gates of rtl/ allow (docs/rtl.md#silicon) [ours, stated
  // with every result].
  double clock_ghz = 1;
  // From a host's request for one line to its data, on an idle device. The link takes the part that
  // memory and serialisation do not, half in each direction [ours, stated with every result].
  Picoseconds access_latency = 150'000;
  unsigned stages = 5;    // of the datapath; 0 is the baseline: one request per cycle, no latency
  unsigned channels = 4;  // sub-channels: two DDR5 modules match both directions of the link [ours]
  DramTiming dram;
  LinkTiming link;
  Picoseconds cache_hit = 30'000;  // 60 cycles, the middle of 50 to 70, at 2 GHz [intel]
  unsigned queue = 128;            // requests on the device [ours]
  unsigned read_queue = 32;        // lines per channel [ours]
  unsigned write_queue = 64;       // lines per channel [ours]
  unsigned write_high = 48;        // from here on, writes go first ... [ours]
  unsigned write_low = 16;         // ... down to here [ours]

  constexpr double period() const { return 1000 / clock_ghz; }  // ps
  Picoseconds one_way() const {
    return (access_latency - dram.activate_to_column - dram.read_latency - dram.burst -
            link.time(link.request_slots) - link.time(link.data_slots)) /
           2;
  }
};

}  // namespace nf::cxl
