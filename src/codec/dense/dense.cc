// fp32, bf16 and fp16: values rounded to nearest if the type is narrower (docs/codecs/dense.md).
// Every hop rounds the sum once.
#include <cstring>

#include "codec/block_codec.h"
#include "codec/make_codecs.h"

namespace nf {
namespace {

class Dense final : public BlockCodec {
 public:
  Dense(const CodecSpec& spec, DataType type, Isa isa)
      : BlockCodec(spec, kMaxBlock, isa), type_(type) {}

  CodecKind kind() const override { return CodecKind::kDense; }
  std::size_t granule() const override { return 1; }
  std::size_t encoded_size(const Slice& slice, std::uint32_t /*contributions*/) const override {
    return slice.count * size_of(type_);
  }

 protected:
  void do_encode(const Slice& /*slice*/, Origin /*origin*/, ConstValues values,
                 std::byte* wire) const override {
    if (values.type == type_ && type_ == DataType::kFloat32) {
      std::memcpy(wire, values.data, values.count * sizeof(float));
      return;
    }
    for_each_run(values,
                 [&](Run run, const float* from) { narrow(from, run.values, at(wire, run)); });
  }

  void do_decode(const Slice& /*slice*/, Origin /*origin*/, const std::byte* wire,
                 Values values) const override {
    for_each_run(values, false, [&](Run run, float* to) { widen(at(wire, run), run.values, to); });
  }

  void do_decode_add(const Slice& /*slice*/, Origin /*origin*/, const std::byte* wire,
                     Values values) const override {
    const auto add = type_ == DataType::kFloat32    ? convert().add_float32
                     : type_ == DataType::kBfloat16 ? convert().add_bfloat16
                                                    : convert().add_float16;
    for_each_run(values, true, [&](Run run, float* to) { add(at(wire, run), run.values, to); });
  }

  void do_decode_add_encode(const Slice& /*slice*/, Origin /*origin*/, const std::byte* wire,
                            ConstValues values, Origin /*total*/, std::byte* out) const override {
    const auto sum = type_ == DataType::kFloat32    ? convert().sum_float32
                     : type_ == DataType::kBfloat16 ? convert().sum_bfloat16
                                                    : convert().sum_float16;
    for_each_run(values, [&](Run run, const float* from) {
      sum(at(wire, run), from, run.values, at(out, run));
    });
  }

 private:
  template <typename Byte>
  Byte* at(Byte* wire, Run run) const {
    return wire + run.block * block() * size_of(type_);
  }

  void narrow(const float* from, std::size_t count, std::byte* to) const {
    switch (type_) {
      case DataType::kFloat32: std::memcpy(to, from, count * sizeof(float)); break;
      case DataType::kBfloat16: convert().float_to_bfloat16(from, count, to); break;
      case DataType::kFloat16: convert().float_to_float16(from, count, to); break;
    }
  }

  void widen(const std::byte* from, std::size_t count, float* to) const {
    switch (type_) {
      case DataType::kFloat32: std::memcpy(to, from, count * sizeof(float)); break;
      case DataType::kBfloat16: convert().bfloat16_to_float(from, count, to); break;
      case DataType::kFloat16: convert().float16_to_float(from, count, to); break;
    }
  }

  const DataType type_;
};

CodecResult make_dense(const CodecSpec& spec, DataType type) {
  NF_RETURN_IF_ERROR(spec.allow(false, {}));
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  return std::unique_ptr<Codec>(std::make_unique<Dense>(spec, type, *isa));
}

}  // namespace

CodecResult make_fp32(const CodecSpec& spec) { return make_dense(spec, DataType::kFloat32); }
CodecResult make_bf16(const CodecSpec& spec) { return make_dense(spec, DataType::kBfloat16); }
CodecResult make_fp16(const CodecSpec& spec) { return make_dense(spec, DataType::kFloat16); }

}  // namespace nf
