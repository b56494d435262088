#include "gpu/mask.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/text.hpp"

namespace muster::gpu {
namespace {

GpuUuid uuid(int index) {
  return {"GPU-" + std::string(1, static_cast<char>('a' + index)) + "0000000-1111-2222-3333-444455556666"};
}

std::vector<Gpu> machine(int count) {
  std::vector<Gpu> gpus(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    gpus[static_cast<std::size_t>(i)].facts.index = static_cast<GpuIndex>(i);
    gpus[static_cast<std::size_t>(i)].facts.uuid = uuid(i);
  }
  return gpus;
}

// GPU 0 whole, GPU 1 cut into two instances.
std::vector<Gpu> machine_with_mig() {
  std::vector<Gpu> gpus = machine(2);
  gpus[1].facts.mig_mode = true;
  gpus[1].facts.mig_instances = {{{"MIG-aaaa1111-0000"}, 1, 0, {}, {}}, {{"MIG-bbbb2222-0000"}, 2, 0, {}, {}}};
  return gpus;
}

std::string indices(const std::vector<VisibleDevice>& devices) {
  std::vector<std::string> parts;
  for (const VisibleDevice& device : devices)
    parts.push_back(std::to_string(number(device.gpu)) + (device.mig ? "." + std::to_string(*device.mig) : ""));
  return join(parts, ",");
}

struct MaskCase {
  std::optional<std::string_view> text;
  std::string_view cuda_sees;  // physical indices on a machine of four
  bool cut;                    // CUDA drops entries without a word; we refuse
  bool ignores = false;        // CUDA reads over the end of an entry without a word; we refuse
};

TEST(Mask, ReadsTheWholeGrammarAsCudaDoes) {
  const std::vector<MaskCase> cases{
      {std::nullopt, "0,1,2,3", false},
      {"", "", false},
      {"  ", "", false},
      {"-1", "", false},
      {"NoDevFiles", "", false},
      {"0", "0", false},
      {"2,0", "2,0", false},
      {" 1, 3", "1,3", false},
      {"+1", "1", false},
      {"1gpu2,2ampere", "1,2", false, true},
      {"0x1", "0", false, true},
      {"03", "3", false},
      {"0,-1,1", "0", true},
      {"-2", "", true},
      {"0,9,1", "0", true},
      {"4", "", true},
      {"99999999999999999999", "", true},
      {"0,,1", "0", true},
      {"0,1,", "0,1", true},
      {"all", "", true},
      {"none", "", true},
      {"0,1,0", "", true},
      {"0;1", "0", false, true},
      {"0 1", "0", false, true},
      {"1;0,9", "1", true, true},
      {"GPU-a", "0", false},
      {"GPU-b0000000-1111-2222-3333-444455556666,GPU-a", "1,0", false},
      {"GPU-", "", true},
      {"GPU-zzzz", "", true},
      {"GPU-A0000000-1111-2222-3333-444455556666", "0", false},
      {"GPU-a0000000-1111-2222-3333-444455556666x,GPU-b", "0,1", false, true},
      {"GPU-a,GPU-a0", "", true},
      {"GPU-a,1", "0", true},
      {"1,GPU-a", "1", true},
      {"GPU-a, GPU-b", "0", true},
      {"MIG-aaaa", "", true},
  };
  const std::vector<Gpu> gpus = machine(4);
  for (const MaskCase& example : cases) {
    const std::string shown(example.text.value_or("(unset)"));
    const CudaView view = read_as_cuda(example.text, gpus);
    EXPECT_EQ(indices(view.devices), example.cuda_sees) << shown;
    EXPECT_EQ(view.cut.has_value(), example.cut) << shown << ": " << view.cut.value_or("");
    const auto ours = read_mask(example.text, gpus);
    EXPECT_EQ(static_cast<bool>(ours), !example.cut && !example.ignores) << shown;
    if (ours) {
      EXPECT_EQ(indices(*ours), example.cuda_sees) << shown;
    }
  }
}

TEST(Mask, RefusesACutListWithTheEntryAndTheReason) {
  const auto refused = read_mask("0,9,1", machine(4));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::bad_input);
  EXPECT_NE(refused.error().what.find("there is no GPU 9; this machine has 0 to 3"), std::string::npos)
      << refused.error().what;
}

TEST(Mask, RefusesASeparatorThatCudaWouldReadOver) {
  const auto refused = read_mask("0;1", machine(4));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::bad_input);
  EXPECT_NE(refused.error().what.find("\"0;1\" is not one GPU; CUDA would read it as 0"), std::string::npos)
      << refused.error().what;
}

TEST(Mask, RefusesAnIdentifierWithoutDigitsEvenWhereThereIsOneGpu) {
  EXPECT_TRUE(read_as_cuda("GPU-", machine(1)).cut);
}

TEST(Mask, FindsMigInstancesInBothForms) {
  const std::vector<Gpu> gpus = machine_with_mig();
  EXPECT_EQ(indices(read_as_cuda("MIG-bbbb", gpus).devices), "1.1");
  EXPECT_EQ(indices(read_as_cuda("MIG-" + uuid(1).text + "/1/0", gpus).devices), "1.0");
  EXPECT_TRUE(read_as_cuda("MIG-" + uuid(1).text + "/7/0", gpus).cut);
  EXPECT_TRUE(read_as_cuda("MIG-", gpus).cut) << "the beginning of two";
  EXPECT_EQ(indices(read_as_cuda("1", gpus).devices), "1.0") << "a GPU in MIG mode stands for its first instance";
}

TEST(Mask, KnowsThatAProcessUsesOneMigInstanceAndNothingBesideIt) {
  const std::vector<Gpu> gpus = machine_with_mig();
  EXPECT_EQ(indices(read_as_cuda(std::nullopt, gpus).devices), "1.0");
  const CudaView both = read_as_cuda("MIG-aaaa,MIG-bbbb", gpus);
  EXPECT_EQ(indices(both.devices), "1.0");
  EXPECT_TRUE(both.cut);
  EXPECT_EQ(indices(read_mask("MIG-aaaa,MIG-bbbb", gpus).value()), "1.0,1.1") << "each child can be given one";
  EXPECT_EQ(indices(read_mask(std::nullopt, gpus).value()), "0,1.0,1.1");
  EXPECT_FALSE(read_mask("0,1", gpus));
}

TEST(Mask, ComposesTheChildsMaskFromTheInheritedOne) {
  const std::vector<Gpu> gpus = machine(8);
  const auto inherited = read_mask("4,5,6,7", gpus).value();
  const std::vector<VisibleIndex> first_two{VisibleIndex{0}, VisibleIndex{1}};
  EXPECT_EQ(compose_mask(inherited, first_two, MaskForm::as_inherited).value(), "4,5");
  EXPECT_EQ(compose_mask(inherited, first_two, MaskForm::uuid).value(), uuid(4).text + "," + uuid(5).text);
  EXPECT_EQ(compose_mask(inherited, {}, MaskForm::as_inherited).value(), "");
  const auto by_uuid = read_mask("GPU-c,GPU-a", gpus).value();
  EXPECT_EQ(compose_mask(by_uuid, std::vector{VisibleIndex{1}}, MaskForm::as_inherited).value(), "GPU-a");
  EXPECT_FALSE(compose_mask(inherited, std::vector{VisibleIndex{4}}, MaskForm::as_inherited));
  EXPECT_FALSE(compose_mask(inherited, std::vector{VisibleIndex{1}, VisibleIndex{1}}, MaskForm::as_inherited));
}

TEST(Mask, GivesOneProcessAtMostOneMigInstance) {
  const auto devices = read_mask(std::nullopt, machine_with_mig()).value();
  EXPECT_EQ(compose_mask(devices, std::vector{VisibleIndex{2}}, MaskForm::as_inherited).value(), "MIG-bbbb2222-0000");
  EXPECT_FALSE(compose_mask(devices, std::vector{VisibleIndex{1}, VisibleIndex{2}}, MaskForm::as_inherited));
  EXPECT_FALSE(compose_mask(devices, std::vector{VisibleIndex{0}, VisibleIndex{1}}, MaskForm::as_inherited));
}

TEST(Mask, TellsChildrenTheOrderItsNumbersAreIn) {
  const auto environment = mask_environment("0,2");
  EXPECT_EQ(environment[0], (std::pair<std::string, std::string>{"CUDA_VISIBLE_DEVICES", "0,2"}));
  EXPECT_EQ(environment[1], (std::pair<std::string, std::string>{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}));
}

TEST(MaskProperty, CompositionNeverWidensAndMeansExactlyWhatWasChosen) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 3000; ++round) {
    const int count = 1 + static_cast<int>(random() % 8);
    const std::vector<Gpu> gpus = machine(count);
    std::vector<std::string> entries;
    const bool by_uuid = random() % 2 == 0;
    for (int i = 0; i < count; ++i)
      if (random() % 3 != 0) entries.push_back(by_uuid ? uuid(i).text.substr(0, 5 + random() % 30) : std::to_string(i));
    std::shuffle(entries.begin(), entries.end(), random);
    const std::string text = join(entries, ",");
    const auto inherited = read_mask(text, gpus);
    ASSERT_TRUE(inherited) << text;

    std::vector<VisibleIndex> chosen;
    for (std::size_t i = 0; i < inherited->size(); ++i)
      if (random() % 2 == 0) chosen.push_back(static_cast<VisibleIndex>(i));
    std::shuffle(chosen.begin(), chosen.end(), random);
    const auto mask = compose_mask(*inherited, chosen, random() % 2 == 0 ? MaskForm::uuid : MaskForm::as_inherited);
    ASSERT_TRUE(mask);

    const CudaView seen = read_as_cuda(*mask, gpus);
    EXPECT_FALSE(seen.cut) << *mask;
    ASSERT_EQ(seen.devices.size(), chosen.size()) << *mask;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      EXPECT_EQ(seen.devices[i].gpu, (*inherited)[static_cast<std::size_t>(number(chosen[i]))].gpu)
          << text << " → " << *mask;
  }
}

TEST(MaskProperty, AnyTextIsReadOrRefusedNeverGuessed) {
  std::mt19937 random(7);
  const std::vector<Gpu> gpus = machine(4);
  const std::string letters = "0123,-+ GPUMIGabz;/x\t";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::size_t length = random() % 14; length > 0; --length) text += letters[random() % letters.size()];
    const CudaView view = read_as_cuda(text, gpus);
    const auto ours = read_mask(text, gpus);
    if (view.cut) {
      ASSERT_FALSE(ours) << text;
    }
    if (ours) {
      ASSERT_EQ(*ours, view.devices) << text;
    }
    for (std::size_t i = 0; i < view.devices.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) ASSERT_NE(view.devices[i].gpu, view.devices[j].gpu) << text;
  }
}

}  // namespace
}  // namespace muster::gpu
