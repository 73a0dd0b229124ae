// How large a file of settings or of keys may be, and who may read what commands write.
#include "config/text_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/private_file.hpp"
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

TEST(PrivateFile, IsItsOwnersAloneUnlessItIsThereAndNeverWaitedFor) {
  const Folder folder;
  const auto mode_of = [](const std::string& path) {
    struct stat found {};
    EXPECT_EQ(::stat(path.c_str(), &found), 0);
    return found.st_mode & 0777u;
  };
  const auto before = ::umask(0);
  const auto open = folder.file("open", "text"), made = open + "-made", pipe = open + "-pipe", link = open + "-link";
  ASSERT_EQ(::chmod(open.c_str(), 0644), 0);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(::symlink((open + "-linked").c_str(), link.c_str()), 0);
  for (const auto& path : {made, open, pipe, link, open + "/nowhere"}) begin_private(path);
  ::umask(before);
  EXPECT_EQ(mode_of(made), 0600u);
  EXPECT_EQ(mode_of(link), 0600u);
  EXPECT_EQ(mode_of(open), 0644u);
  EXPECT_EQ(std::get<std::string>(read_text_file(open, file_of_keys)), "text");
}

}  // namespace
}  // namespace weir::config
