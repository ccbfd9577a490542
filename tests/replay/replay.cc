// replay FOLDER: runs a fuzzer on every file of the folder.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    std::cerr << "usage: replay FOLDER\n";
    return 2;
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> text(std::istreambuf_iterator<char>(file), {});
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    std::cout << entry.path().filename().string() << std::endl;  // before it can abort
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++files;
  }
  return files > 0 ? 0 : 1;
}
