#include "proxy/control/page_files.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace weir::proxy::control {
namespace {

TEST(PageFiles, HaveAPathATypeATagAndAText) {
  std::set<std::string_view> paths, tags;
  for (const auto& file : live::page::files()) {
    EXPECT_TRUE(file.path == "/" || file.path.starts_with("/page/")) << file.path;
    EXPECT_FALSE(file.content_type.empty()) << file.path;
    EXPECT_TRUE(file.tag.starts_with("W/\"") && file.tag.ends_with('"')) << file.tag;
    EXPECT_FALSE(file.text.empty()) << file.path;
    EXPECT_EQ(page_file(file.path), &file);
    paths.insert(file.path);
    tags.insert(file.tag);
  }
  EXPECT_EQ(paths.size(), live::page::files().size());
  EXPECT_EQ(tags.size(), paths.size());
  EXPECT_EQ(page_file("/page/none"), nullptr);
  EXPECT_EQ(page_file(""), nullptr);
}

/// Whatever a file names of the page is there: a module that is missing leaves an empty page.
TEST(PageFiles, NameOnlyWhatIsThere) {
  for (const auto& file : live::page::files()) {
    if (file.path != "/" && (!file.path.ends_with(".js") || file.path == "/page/uplot.js")) continue;
    for (const std::string before : {"\"/page/", "from \"./"}) {
      for (auto at = file.text.find(before); at != file.text.npos; at = file.text.find(before, at + 1)) {
        const auto begin = at + before.size();
        const auto name = file.text.substr(begin, file.text.find('"', begin) - begin);
        EXPECT_NE(page_file("/page/" + std::string(name)), nullptr) << file.path << " names " << name;
      }
    }
  }
}

TEST(PageFiles, AreKnownToAClientByTheirTag) {
  const std::string_view tag = "W/\"abc\"";
  for (const auto* field : {"W/\"abc\"", "\"abc\"", "*", " W/\"abc\" ", "\"x\", W/\"abc\"", "W/\"abc\",\"x\"",
                            ",,\"abc\""})
    EXPECT_TRUE(names_tag(field, tag)) << field;
  for (const auto* field : {"", "abc", "\"ab\"", "\"abcd\"", "W/abc", "\"ABC\"", ",", "W/", "\"x\",\"y\""})
    EXPECT_FALSE(names_tag(field, tag)) << field;
}

}  // namespace
}  // namespace weir::proxy::control
