// neuron_fabric._C, the native part of the Python package. Its types are in _C.pyi.
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench.h"
#include "contribution.h"
#include "ddp_hook.h"
#include "neuron_fabric/reduce_scatter.h"
#include "neuron_fabric/topology.h"
#include "neuron_fabric/version.h"
#include "runtime.h"
#include "runtime/decision.h"
#include "runtime/route.h"

namespace nf::torch_front {
namespace {

namespace py = pybind11;

// The only place where a Status becomes an exception, except for the futures of buckets.
void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <typename T>
T take(Expected<T> expected) {
  if (!expected) throw py::value_error(expected.status().message());
  return std::move(*expected);
}

// Tuples of step, useful regions and whether the reducer's rate was exceeded; or None.
std::optional<std::vector<MeasuredDecision>> decisions_from(const py::object& changes) {
  if (changes.is_none()) return {};
  std::vector<MeasuredDecision> decisions;
  for (auto& [from_step, useful, is_over_capacity] :
       changes.cast<std::vector<std::tuple<std::uint64_t, std::vector<std::string>, bool>>>()) {
    decisions.push_back({from_step, useful, is_over_capacity});
  }
  return decisions;
}

FabricOptions options_from(const py::dict& options) {
  FabricOptions result;
  result.profile = take(Profile::parse(options["profile"].cast<std::string>()));
  const auto mode = options["mode"].cast<std::string>();
  result.mode = mode == "shadow" ? Mode::kShadow : Mode::kOn;
  result.collective = take(find_collective(options["collective"].cast<std::string>()));
  const auto admit = options["admit"].cast<std::string>();
  result.admit = admit == "forced" ? Admit::kForced
                 : admit == "safe" ? Admit::kSafe
                                   : Admit::kUseful;
  if (const auto topology = options["topology"].cast<std::string>(); topology != "auto") {
    result.topology = take(find_topology(topology));
  }
  result.measured_bucket_values = options["measured_bucket_values"].cast<std::size_t>();
  result.host_group_size = options["group"].cast<std::uint32_t>();
  if (!options["link_gbps"].is_none()) result.link_gbps = options["link_gbps"].cast<double>();
  result.decisions = decisions_from(options["decisions"]);
  result.seed = options["seed"].cast<std::uint64_t>();
  result.timeout = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(options["timeout"].cast<double>()));
  return result;
}

MemorySideReducer reducer_from(const py::dict& options) {
  return {.name = options["shared_reducer"].cast<std::string>(),
          .record_lines = options["record_lines"].cast<std::string>()};
}

// Without the GIL: its threads may be about to call a hook that is written in Python.
void end_runtime(Runtime* runtime) {
  std::optional<py::gil_scoped_release> no_gil;
  if (PyGILState_Check() != 0) no_gil.emplace();
  delete runtime;
}

std::shared_ptr<Runtime> make_runtime(std::vector<std::string> names,
                                      std::vector<std::string> module_types,
                                      std::vector<at::Tensor> tensors,
                                      const c10::intrusive_ptr<c10d::ProcessGroup>& training,
                                      const c10::intrusive_ptr<c10d::ProcessGroup>& own,
                                      const c10::intrusive_ptr<c10d::Store>& store,
                                      std::string prefix, const py::dict& options) {
  FabricOptions parsed = options_from(options);
  MemorySideReducer reducer = reducer_from(options);
  auto why_on_host = options["why_on_host"].cast<std::string>();
  const py::gil_scoped_release no_gil;
  return {new Runtime(Model(std::move(names), std::move(module_types), std::move(tensors)),
                      JobContext{training, own, store, std::move(prefix)}, std::move(parsed),
                      std::move(reducer), std::move(why_on_host)),
          end_runtime};
}

// The parameters of the reducer in the order of its buckets, each with whether its gradients are
// sparse: such a parameter has its own bucket, which has no buffer before the first backward.
py::list reducer_parameters(const c10d::Reducer& reducer) {
  py::list result;
  for (const c10d::GradBucket& bucket : reducer.get_grad_buckets(/*return_zero_tensors=*/false)) {
    const bool is_sparse = !bucket.getBuffer().defined() || bucket.getBuffer().is_sparse();
    for (const at::Tensor& parameter : bucket.getParameters()) {
      result.append(py::make_tuple(parameter, is_sparse));
    }
  }
  return result;
}

void register_hook(const std::shared_ptr<Runtime>& runtime, c10d::Reducer& reducer) {
  const py::gil_scoped_release no_gil;
  reducer.register_comm_hook(std::make_unique<DdpHook>(runtime));
}

std::shared_ptr<torch::jit::PythonFutureWrapper> run_hook(const std::shared_ptr<Runtime>& runtime,
                                                          c10d::GradBucket& bucket) {
  const py::gil_scoped_release no_gil;
  return std::make_shared<torch::jit::PythonFutureWrapper>(
      runtime->run(ddp_bucket(runtime->model(), bucket)));
}

// The bucket of a source that is written in Python. `slots` are tuples of parameter, offset and
// count.
std::shared_ptr<torch::jit::PythonFutureWrapper> run_values(
    const std::shared_ptr<Runtime>& runtime, const at::Tensor& buffer, std::size_t index,
    bool is_last, bool is_mean,
    const std::optional<std::vector<std::tuple<std::uint32_t, std::size_t, std::size_t>>>& slots) {
  SourceBucket bucket{.buffer = buffer,
                      .index = index,
                      .is_last = is_last,
                      .reduction = is_mean ? Reduction::kMean : Reduction::kSum};
  if (slots) {
    if (!buffer.is_contiguous() || !data_type(buffer.scalar_type())) {
      throw py::value_error(
          "a buffer with slots must be contiguous, in float32, bfloat16 or float16");
    }
    bucket.slots.emplace();
    for (const auto& [parameter, offset, count] : *slots) {
      bucket.slots->push_back({.parameter = parameter, .offset = offset, .count = count});
    }
  }
  const py::gil_scoped_release no_gil;
  return std::make_shared<torch::jit::PythonFutureWrapper>(runtime->run(std::move(bucket)));
}

// (route, parameter, kind, rows, values). The tensors are copies.
py::list memory_of(Runtime& runtime) {
  Expected<std::vector<Fabric::Memory>> memory = std::vector<Fabric::Memory>();
  {
    const py::gil_scoped_release no_gil;
    const c10::OptionalDeviceGuard guard = runtime.device_guard();
    runtime.drain();
    memory = runtime.fabric().memory();
  }
  check(memory.status());
  py::list items;
  for (const Fabric::Memory& item : *memory) {
    const std::vector<float>& values = item.entry.values;
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kFloat);
    std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
    items.append(py::make_tuple(item.route, item.entry.parameter, item.entry.kind, item.entry.rows,
                                std::move(tensor)));
  }
  return items;
}

void load_memory(Runtime& runtime, const py::list& items) {
  std::vector<Fabric::Memory> memory;
  for (const py::handle& item : items) {
    const auto tuple = item.cast<py::tuple>();
    const at::Tensor values = tuple[4].cast<at::Tensor>().to(at::kCPU, at::kFloat).contiguous();
    const float* data = values.data_ptr<float>();
    memory.push_back({.route = tuple[0].cast<std::string>(),
                      .entry = {.parameter = tuple[1].cast<std::uint64_t>(),
                                .kind = tuple[2].cast<std::string>(),
                                .rows = tuple[3].cast<std::size_t>(),
                                .values = std::vector<float>(data, data + values.numel())}});
  }
  const c10::OptionalDeviceGuard guard = runtime.device_guard();
  check(runtime.fabric().load_memory(memory));
}

std::vector<ModelParameter> parameters_of(const std::vector<std::string>& names,
                                          const std::vector<std::string>& module_types,
                                          const std::vector<at::Tensor>& tensors) {
  return Model(names, module_types, tensors).parameters();
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.attr("__version__") = std::string(kVersion);
  module.attr("built_for_torch") = NF_TORCH_VERSION;
  module.attr("devices") = std::string(DeviceBackend::kind());
  module.attr("architectures") = std::string(DeviceBackend::architectures());

  py::class_<Runtime, std::shared_ptr<Runtime>>(module, "Runtime")
      .def(py::init(&make_runtime), py::arg("names"), py::arg("module_types"), py::arg("tensors"),
           py::arg("training_group"), py::arg("own_group"), py::arg("store"), py::arg("prefix"),
           py::arg("options"))
      .def("register", &register_hook, py::arg("reducer"))
      .def("run", &run_hook, py::arg("bucket"))
      .def("run_values", &run_values, py::arg("buffer"), py::arg("index"), py::arg("is_last"),
           py::arg("is_mean"), py::arg("slots"))
      .def("observe_loss", [](Runtime& self, double loss) { self.fabric().observe_loss(loss); })
      .def("set_loss_scale",
           [](Runtime& self, float scale) { self.fabric().set_loss_scale(scale); })
      .def("report_capacity_breach", [](Runtime& self) { self.fabric().report_capacity_breach(); })
      .def("detach", [](Runtime& self) { self.fabric().detach(); })
      .def(
          "should_step", [](Runtime& self) { return self.fabric().should_step(); },
          py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("step", [](Runtime& self) { return self.fabric().step(); })
      .def_property_readonly(
          "topology",
          [](Runtime& self) { return std::string(to_string(self.fabric().topology())); })
      .def_property_readonly("place", &Runtime::place)
      .def_property_readonly("why_on_host", &Runtime::why_on_host)
      .def_property_readonly("held_bytes", [](Runtime& self) { return self.fabric().held_bytes(); })
      .def("records", [](Runtime& self) { return self.fabric().drain(); })
      .def("drain", &Runtime::drain, py::call_guard<py::gil_scoped_release>())
      .def("state",
           [](Runtime& self) {
             const py::gil_scoped_release no_gil;
             self.drain();
             return self.fabric().state();
           })
      .def("load_state",
           [](Runtime& self, const std::string& state) { check(self.fabric().load_state(state)); })
      .def("memory", &memory_of)
      .def("load_memory", &load_memory)
      .def("close", &Runtime::close, py::call_guard<py::gil_scoped_release>());

  module.def("reducer_parameters", &reducer_parameters);
  module.def("parse_profile", [](const std::string& text, const std::string& origin) {
    return take(Profile::parse(text, origin)).print();
  });
  module.def("static_profile",
             [](const std::string& route) { return static_profile(route).print(); });
  module.def("default_profile",
             [](const std::vector<std::string>& names, const std::vector<std::string>& module_types,
                const std::vector<at::Tensor>& tensors) {
               return default_profile(parameters_of(names, module_types, tensors)).print();
             });
  module.def("binding_hash", [](const std::string& profile, const std::vector<std::string>& names,
                                const std::vector<std::string>& module_types,
                                const std::vector<at::Tensor>& tensors) {
    return take(Binding::make(take(Profile::parse(profile)),
                              parameters_of(names, module_types, tensors)))
        .hash();
  });
  module.def("region_names", [](const std::string& profile, const std::vector<std::string>& names,
                                const std::vector<std::string>& module_types,
                                const std::vector<at::Tensor>& tensors) {
    const Binding binding = take(
        Binding::make(take(Profile::parse(profile)), parameters_of(names, module_types, tensors)));
    std::vector<std::string> regions;
    for (std::size_t i = 0; i < names.size(); ++i) {
      regions.push_back(binding.profile().regions[binding.region_of(i)].name);
    }
    return regions;
  });
  module.def(
      "contribution_bytes",
      [](const std::string& route, const std::vector<std::string>& names,
         const std::vector<std::string>& module_types, const std::vector<at::Tensor>& tensors) {
        return take(contribution_bytes(route, parameters_of(names, module_types, tensors)));
      });
  module.def("remembers", [](const std::string& route) { return take(remembers(route)); });
  module.def("reason_names", [] {
    const auto names = reason_names();
    return std::vector<std::string>(names.begin(), names.end());
  });
  module.def(
      "topology_names",
      [](const std::string& collective_name) {
        const Collective collective = take(find_collective(collective_name));
        std::vector<std::string> names;
        for (const Topology topology : all_topologies()) {
          if (check_topology(collective, topology).ok()) names.emplace_back(to_string(topology));
        }
        return names;
      },
      py::arg("collective") = "all_reduce");
  module.def("parameter_key", [](const std::string& name) { return parameter_key(name); });
  module.def("shard_key", &shard_key);
  module.def(
      "bench_all_reduce",
      [](const c10::intrusive_ptr<c10d::ProcessGroup>& training,
         const c10::intrusive_ptr<c10d::ProcessGroup>& own,
         const std::string& request) { check(bench_all_reduce(training, own, request)); },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace nf::torch_front
