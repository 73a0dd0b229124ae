// How large a file of settings or of keys may be.
#include "config/text_file.hpp"

#include <gtest/gtest.h>

#include "load_text.hpp"

namespace weir::config {
namespace {

TEST(TextFile, HasAtMostItsKindsMebibytes) {
  const Folder folder;
  for (const auto& [kind, mib] : {std::pair{file_of_settings, 1u}, std::pair{file_of_keys, 16u}}) {
    const std::string most(std::size_t{mib} * 1024 * 1024, '#');
    EXPECT_TRUE(std::get<std::string>(read_text_file(folder.file("text", most), kind)) == most);
    EXPECT_EQ(std::get<Problem>(read_text_file(folder.file("text", most + '#'), kind)).text,
              "it is larger than " + std::to_string(mib) + " MiB");
  }
}

}  // namespace
}  // namespace weir::config
