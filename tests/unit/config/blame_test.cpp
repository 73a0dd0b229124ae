#include "config/blame.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weir::config {
namespace {

TEST(Blame, NamesFileLineKeyAndValue) {
  const auto file = std::filesystem::temp_directory_path() / ("weir-blame-" + std::to_string(::getpid()));
  std::ofstream(file) << "[log]\nlevel = 'info'\n[admin]\nlisten = ''\nstate = '/nowhere'\n";
  const auto error = blame(file, "admin", "state", "is full; make room");
  EXPECT_EQ(error.text(), file.string() + ":5:9: [admin] state = \"/nowhere\": is full; make room");
  EXPECT_EQ(blame(file, "admin", "reports", "is full").text(), file.string() + ": [admin] reports: is full");
  EXPECT_EQ(blame(file, "limits", "connect", "is odd").text(), file.string() + ": [limits] connect: is odd");
  std::ofstream(file) << "[admin\n";
  EXPECT_EQ(blame(file, "admin", "state", "is full").text(), file.string() + ": [admin] state: is full");
  std::filesystem::remove(file);
  EXPECT_EQ(blame(file, "admin", "state", "is full").text(), file.string() + ": [admin] state: is full");
}

}  // namespace
}  // namespace weir::config
