// How large a file of settings or of keys may be.
#include "config/text_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weir::config {
namespace {

TEST(TextFile, HasAtMostItsKindsMebibytes) {
  const auto path = std::filesystem::path(testing::TempDir()) / ("weir_text_" + std::to_string(::getpid()));
  for (const auto& [kind, mib] : {std::pair{file_of_settings, 1u}, std::pair{file_of_keys, 16u}}) {
    for (const std::size_t more : {0u, 1u}) {
      const std::string text(std::size_t{mib} * 1024 * 1024 + more, '#');
      std::ofstream(path) << text;
      const auto read = read_text_file(path.string(), kind);
      if (more == 0) {
        EXPECT_TRUE(std::get<std::string>(read) == text);
      } else {
        EXPECT_EQ(std::get<Problem>(read).text, "it is larger than " + std::to_string(mib) + " MiB");
      }
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace weir::config
