#include "tests/integration/peers/keys_file.hpp"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <array>
#include <iomanip>
#include <sstream>

#include "tests/integration/peers/words.hpp"

namespace weir::integration {

std::string key_lines(const std::string& name, const std::string& secret, const std::string& more) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), hash.data());
  std::ostringstream text;
  text << "[[key]]\nname = " << quoted(name) << "\nsha256 = \"" << std::hex << std::setfill('0');
  for (const auto byte : hash) text << std::setw(2) << unsigned{byte};
  text << "\"\n" << more;
  return text.str();
}

std::string KeysFile::add(const std::string& name, const std::vector<std::string>& more) const {
  std::vector<std::string> words{"key", "new", name, "--append", path()};
  words.insert(words.end(), more.begin(), more.end());
  const auto done = run_weir(words);
  EXPECT_EQ(done.exit.code, 0) << done.output;
  return done.output.substr(0, done.output.find('\n'));
}

void KeysFile::remove(const std::string& name) const {
  auto all = text();
  const auto at = all.rfind("[[key]]", all.find("name = " + quoted(name)));
  const auto next = all.find("[[key]]", at + 1);
  all.erase(at, next == std::string::npos ? next : next - at);
  write_file(path(), all);
}

WeirSettings KeysFile::asked_by(WeirSettings settings) const {
  settings.server["api_keys"] = quoted(path());
  return settings;
}

}  // namespace weir::integration
